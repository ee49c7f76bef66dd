import type { CommonQueryMethods, FragmentSqlToken, ListSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { RegistrationFilter, Registration } from "./registrations.rules.ts";
import type { CopyPool } from "../../db/pools/copyPool.ts";
import { attributionCondition, ownedBy, ownedWithId } from "../records/ownedRecords.sql.ts";
import { olderThan, positionColumn, positionOf } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { LINE_END, splitCopied, splitLines } from "../../db/pools/copyPool.ts";
import { inRange, sql } from "../../db/sql.ts";
import {
  copiedTime,
  readCopied,
  REGISTRATION_WIDTH,
  registrationColumns,
} from "./registrationColumns.sql.ts";

const conditions = (owner: Owner, filter: RegistrationFilter): ListSqlToken =>
  sql.join(
    [
      filter.id === undefined
        ? ownedBy("registration", owner)
        : ownedWithId("registration", owner, filter.id),
      ...(filter.attribution === undefined
        ? []
        : [attributionCondition("registration", filter.attribution)]),
      ...inRange(sql.identifier(["registration", "created_at"]), filter),
    ],
    sql.fragment` AND `,
  );

/**
 * Each pair must be equal. Containment decides that for all pairs with one look at the stored metadata, but it also
 * accepts objects and arrays that contain more, so those are compared as well.
 */
const metadataCondition = ({ metadata = {} }: RegistrationFilter): FragmentSqlToken => {
  const pairs = Object.entries(metadata);
  if (pairs.length === 0) {
    return sql.fragment`TRUE`;
  }
  return sql.fragment`${sql.join(
    [
      sql.fragment`registration.metadata @> ${JSON.stringify(metadata)}::jsonb`,
      ...pairs
        .filter(([, value]) => typeof value === "object" && value !== null)
        .map(
          ([key, value]) =>
            sql.fragment`registration.metadata -> ${key} = ${JSON.stringify(value)}::jsonb`,
        ),
    ],
    sql.fragment` AND `,
  )}`;
};

const positionRow = z.strictObject({ position: z.string(), id: z.uuid() });

/** Returns the position of one of the owner's registrations, or null. */
export const findListPosition = async (
  db: CommonQueryMethods,
  owner: Owner,
  id: string,
): Promise<ListPosition | null> => {
  const row = await db.maybeOne(sql.prepared("find_list_position", positionRow)`
    SELECT ${positionColumn("registration")}, registration.id
    FROM registration
    WHERE ${ownedWithId("registration", owner, id)}
  `);
  return positionOf(row ?? undefined);
};

/** One page of a list. */
export type ListPage = {
  /** Those that match. They are read one by one as they are needed; until then the page holds their text. */
  readonly registrations: Iterable<Registration>;
  /** The last registration that the page has read, shown or not. */
  readonly last: ListPosition & { readonly id: string };
  /** Whether it has read fewer registrations than it could, so that nothing follows. */
  readonly isLast: boolean;
};

/**
 * How many registrations a page reads, matching or not, and how many bytes of JSON it has. A single registration with
 * more bytes is a page of its own.
 */
export type PageLimits = { readonly rows: number; readonly bytes: number };

/** Yields the registrations of copied lines. */
function* readLines(lines: Buffer): Generator<Registration, void, void> {
  for (const line of splitLines(lines)) {
    yield readCopied(splitCopied(line));
  }
}

const parsePage = (lines: Buffer): ListPage | null => {
  if (lines.length === 0) {
    return null;
  }
  const lastStart = lines.lastIndexOf(LINE_END, -2) + 1;
  const values = splitCopied(lines.toString("utf8", lastStart, lines.length - 1));
  const [matches, isLast] = values.slice(REGISTRATION_WIDTH);
  return {
    registrations: {
      [Symbol.iterator]: () => readLines(matches === "t" ? lines : lines.subarray(0, lastStart)),
    },
    last: { createdAt: copiedTime(values), id: readCopied(values).id },
    isLast: isLast === "t",
  };
};

/** The clauses of an owner's registrations that match, apart from metadata, and follow a position. */
export const following = (
  owner: Owner,
  filter: RegistrationFilter,
  after: ListPosition | null,
): FragmentSqlToken => sql.fragment`
  FROM registration
  WHERE ${conditions(owner, filter)} AND ${olderThan("registration", after)}
`;

export const newestFirst = sql.fragment`ORDER BY registration.created_at DESC, registration.id DESC`;

/**
 * Reads one page of a list, newest first.
 *
 * The limit of rows comes before the filter of metadata, which no index serves (ADR 7): a page takes milliseconds
 * however few registrations match. Adding up the bytes of a whole page is cheap; only if they are too many, a running sum
 * finds the rows that fit. The last row is also copied if it does not match, because the next page follows it.
 * @returns null if nothing follows
 */
export const readPage = async (
  copies: CopyPool,
  owner: Owner,
  filter: RegistrationFilter,
  {
    after,
    limits,
    isBulk,
  }: {
    readonly after: ListPosition | null;
    readonly limits: PageLimits;
    /** Whether the page follows others of a long list. */
    readonly isBulk: boolean;
  },
): Promise<ListPage | null> => {
  const clauses = following(owner, filter, after);
  return parsePage(
    await copies.copy(
      owner.accountId,
      sql.fragment`
        WITH page_limit AS MATERIALIZED (
          SELECT CASE WHEN sum(whole.json_bytes) <= ${limits.bytes} THEN ${limits.rows} ELSE (
            SELECT greatest(1, count(*) FILTER (WHERE part.bytes <= ${limits.bytes}))
            FROM (
              SELECT sum(registration.json_bytes) OVER (${newestFirst} ROWS UNBOUNDED PRECEDING) AS bytes
              ${clauses}
              ${newestFirst}
              LIMIT ${limits.rows}
            ) AS part
          ) END AS rows
          FROM (SELECT registration.json_bytes ${clauses} ${newestFirst} LIMIT ${limits.rows}) AS whole
        )
        SELECT ${registrationColumns("scanned")}, scanned.matches, scanned.place < (SELECT rows FROM page_limit)
        FROM (
          SELECT
            registration.*,
            ${metadataCondition(filter)} AS matches,
            row_number() OVER in_order AS place,
            lead(true) OVER in_order IS NULL AS is_end
          FROM (
            SELECT registration.*
            ${clauses}
            ${newestFirst}
            LIMIT (SELECT rows FROM page_limit)
          ) AS registration
          WINDOW in_order AS (${newestFirst})
        ) AS scanned
        WHERE scanned.matches OR scanned.is_end
      `,
      { isBulk },
    ),
  );
};
