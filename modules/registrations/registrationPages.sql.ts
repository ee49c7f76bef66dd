import type { CommonQueryMethods, FragmentSqlToken, ListSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { RegistrationFilter, Registration, Totals } from "./registrations.rules.ts";
import type { CopyPool } from "../../db/pools/copyPool.ts";
import { attributionCondition, ownedBy, ownedWithId } from "../records/ownedRecords.sql.ts";
import { olderThan, positionColumn, positionOf } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { LINE_END, splitCopied, splitLines } from "../../db/pools/copyPool.ts";
import { inRange, sql, timestamp } from "../../db/sql.ts";
import {
  copiedTime,
  readCopied,
  REGISTRATION_WIDTH,
  registrationColumns,
  registrationObject,
  registrationRow,
} from "./registrationColumns.sql.ts";
import { FIRST_ID } from "../records/recordIds.rules.ts";
import { totalColumns, totalsOf } from "./totals.sql.ts";

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
type PageLimits = { readonly rows: number; readonly bytes: number };

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
const following = (
  owner: Owner,
  filter: RegistrationFilter,
  after: ListPosition | null,
): FragmentSqlToken => sql.fragment`
  FROM registration
  WHERE ${conditions(owner, filter)} AND ${olderThan("registration", after)}
`;

const newestFirst = sql.fragment`ORDER BY registration.created_at DESC, registration.id DESC`;

/**
 * Reads one page of a list, newest first.
 *
 * The limit of rows comes before the filter of metadata, which no index serves (ADR 7): a page takes milliseconds
 * however few registrations match. Adding up the bytes of a whole page is cheap; only if they are too many, a running sum
 * finds the rows that fit. The last row is also copied if it does not match, because the next page follows it. The
 * names of columns that a page adds begin with `scan_`, so that no column of a registration has them.
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
        SELECT ${registrationColumns("scanned")}, scanned.scan_matches, scanned.scan_place < (SELECT rows FROM page_limit)
        FROM (
          SELECT
            registration.*,
            ${metadataCondition(filter)} AS scan_matches,
            row_number() OVER in_order AS scan_place,
            lead(true) OVER in_order IS NULL AS scan_is_end
          FROM (
            SELECT registration.*
            ${clauses}
            ${newestFirst}
            LIMIT (SELECT rows FROM page_limit)
          ) AS registration
          WINDOW in_order AS (${newestFirst})
        ) AS scanned
        WHERE scanned.scan_matches OR scanned.scan_is_end
      `,
      { isBulk },
    ),
  );
};

/** The most registrations that a short page reads. */
export const SHORT_PAGE_ROWS = 101;

/** Returns the position before which a page begins: that of the previous page's end, or the end of the range. */
const upperBound = (
  { until }: RegistrationFilter,
  after: ListPosition | null,
): { readonly createdAt: Date | string; readonly id: string } =>
  after !== null && (until === undefined || new Date(after.createdAt) < until)
    ? { createdAt: after.createdAt, id: after.id ?? FIRST_ID }
    : { createdAt: until ?? "infinity", id: FIRST_ID };

/**
 * The clauses of a page that is read from the listing, or from that of an attribution. The planner sees no value and
 * expects a large part of the table, of which the literal limit leaves little. So it reads the index in its order, whatever
 * it knows about the account, and needs to plan that only once.
 */
const inOrderOfIndex = (
  owner: Owner,
  filter: RegistrationFilter,
  after: ListPosition | null,
): FragmentSqlToken => {
  const { createdAt, id } = upperBound(filter, after);
  const { attribution } = filter;
  const of =
    attribution === undefined
      ? {
          column: sql.fragment``,
          value: sql.fragment``,
          order: sql.fragment``,
        }
      : {
          column: sql.fragment`, text_digest(attribution)`,
          value: sql.fragment`, (SELECT text_digest(${attribution}))`,
          order: sql.fragment`text_digest(attribution) DESC,`,
        };
  return sql.fragment`
    FROM (
      SELECT *
      FROM registration
      WHERE (account_id, mode, kind ${of.column}, created_at, id) < (
          (SELECT ${owner.accountId}::uuid), (SELECT ${owner.mode}::text), (SELECT ${owner.kind}::text) ${of.value},
          (SELECT ${timestamp(createdAt)}), (SELECT ${id}::uuid)
        )
        AND (account_id, mode, kind ${of.column}) >= (
          (SELECT ${owner.accountId}::uuid), (SELECT ${owner.mode}::text), (SELECT ${owner.kind}::text) ${of.value}
        )
        ${attribution === undefined ? sql.fragment`` : sql.fragment`AND attribution <> ''`}
      ORDER BY account_id DESC, mode DESC, kind DESC, ${of.order} created_at DESC, id DESC
      LIMIT ${sql.literalValue(String(SHORT_PAGE_ROWS))}
    ) AS registration
    WHERE registration.created_at >= ${timestamp(filter.from ?? "-infinity")}
  `;
};

/** Returns whether short pages exist for a filter: by id alone, or for what is read in the order of an index. */
export const hasShortPages = (
  { id, attribution, from, until, metadata }: RegistrationFilter,
  after: ListPosition | null,
): boolean =>
  id === undefined
    ? attribution !== "" && metadata === undefined
    : [attribution, from, until, metadata, after ?? undefined].every((each) => each === undefined);

const statementName = ({ id, attribution }: RegistrationFilter): string => {
  if (id !== undefined) {
    return "list_registration";
  }
  return attribution === undefined ? "list_short_page" : "list_short_page_of_attribution";
};

const pageRow = z.strictObject({
  ...totalColumns,
  /** Null, like the columns after it, if nothing follows. */
  createdAt: z.string().nullable(),
  id: z.uuid().nullable(),
  isLast: z.boolean().nullable(),
  registrations: z.array(registrationRow).nullable(),
});

/**
 * Reads a short page of a list, newest first, and the owner's totals as of a time, by an ordinary query, which is
 * prepared.
 * @param filter one that has short pages
 * @param limits at most `SHORT_PAGE_ROWS` rows
 * @returns the page null if nothing follows
 */
export const readShortPage = async (
  db: CommonQueryMethods,
  owner: Owner,
  filter: RegistrationFilter,
  {
    after,
    limits,
    now,
  }: {
    readonly after: ListPosition | null;
    readonly limits: PageLimits;
    readonly now: Date;
  },
): Promise<{ readonly totals: Totals; readonly page: ListPage | null }> => {
  const clauses =
    filter.id === undefined
      ? inOrderOfIndex(owner, filter, after)
      : following(owner, filter, after);
  const statement = sql.prepared(statementName(filter), pageRow);
  const { all, month, createdAt, id, isLast, registrations } = await db.one(statement`
    SELECT totals."all", totals.month, page.*
    FROM ${totalsOf(owner, now)}
    LEFT JOIN (
      SELECT
        min(page.created_at)::text AS "createdAt",
        (array_agg(page.id))[count(*)] AS id,
        count(*) = max(page.scan_rows) AND count(*) < ${limits.rows} AS "isLast",
        json_agg(page.registration) AS registrations
      FROM (
        SELECT scanned.id, scanned.created_at, scanned.scan_rows, ${registrationObject("scanned")} AS registration
        FROM (
          SELECT
            registration.*,
            count(*) OVER () AS scan_rows,
            sum(registration.json_bytes) OVER (${newestFirst} ROWS UNBOUNDED PRECEDING) AS scan_bytes
          -- In the order of the clauses. With an ORDER BY, all that they have would be read and sorted.
          FROM (SELECT registration.* ${clauses} LIMIT ${limits.rows}) AS registration
        ) AS scanned
        -- The first one, however long it is, has only its own bytes.
        WHERE scanned.scan_bytes <= ${limits.bytes} OR scanned.scan_bytes = scanned.json_bytes
      ) AS page
      HAVING count(*) > 0
    ) AS page ON TRUE
  `);
  return {
    totals: { all, month },
    page:
      createdAt === null || id === null
        ? null
        : {
            registrations: registrations ?? [],
            last: { createdAt, id },
            isLast: isLast === true,
          },
  };
};
