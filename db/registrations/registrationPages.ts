import type { CommonQueryMethods, FragmentSqlToken, ListSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../../domain/accounts/accounts.ts";
import type { RegistrationFilter } from "../../domain/registrations/registrations.ts";
import type { CopyPool } from "../pools/copyPool.ts";
import { COLUMN_END } from "../pools/copyPool.ts";
import { attributionCondition, ownedBy, ownedWithId } from "../ownedRecords.ts";
import { olderThan, positionColumn, positionOf } from "../listPositions.ts";
import type { ListPosition } from "../listPositions.ts";
import { inRange, sql } from "../sql.ts";

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
      sql.fragment`scanned.metadata @> ${JSON.stringify(metadata)}::jsonb`,
      ...pairs
        .filter(([, value]) => typeof value === "object" && value !== null)
        .map(
          ([key, value]) =>
            sql.fragment`scanned.metadata -> ${key} = ${JSON.stringify(value)}::jsonb`,
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

/** A separator of objects that is in none of them: JSON escapes this character. */
export const ROW_END = "\u001E";

export type RowSeparator = "," | typeof ROW_END;

/** One page of a list: the JSON of its objects with separators, in chunks; none if no registration matches. */
export type ListPage = {
  readonly json: readonly Buffer[];
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

const parsePage = (pieces: readonly Buffer[]): ListPage | null => {
  const [first, ...rest] = pieces;
  if (!first) {
    return null;
  }
  const createdAtEnd = first.indexOf(COLUMN_END);
  const idEnd = first.indexOf(COLUMN_END, createdAtEnd + 1);
  const isLastEnd = first.indexOf(COLUMN_END, idEnd + 1);
  if (createdAtEnd < 0 || idEnd < 0 || isLastEnd < 0) {
    // The position spans several chunks.
    return parsePage([Buffer.concat(pieces)]);
  }
  return {
    json: [first.subarray(isLastEnd + 1), ...rest].filter(({ length }) => length > 0),
    last: {
      createdAt: first.toString("latin1", 0, createdAtEnd),
      id: first.toString("latin1", createdAtEnd + 1, idEnd),
    },
    isLast: first.toString("latin1", idEnd + 1, isLastEnd) === "t",
  };
};

/** Selects what a list shows of the registrations that the clauses leave. */
export const listedOf = (clauses: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT
    registration.id,
    registration.imported_id,
    registration.count,
    registration.fractional_count,
    registration.created_at,
    registration.idempotency_key,
    registration.metadata,
    registration.attribution,
    registration.refunded_count,
    registration.json_bytes
  ${clauses}
`;

/** The JSON of the registration `scanned`; null if it does not match. `format` takes half the time of `json_build_object`. */
export const jsonOf = (filter: RegistrationFilter): FragmentSqlToken => sql.fragment`
  CASE WHEN ${metadataCondition(filter)} THEN format(
    '{"id":%s,"count":%s,"fractional_count":%s,"created_at":"%s","idempotency_key":%s,"metadata":%s,"attribution":%s,"refunded":%s,"refunded_count":%s}',
    to_json(coalesce(scanned.imported_id, scanned.id::text)),
    scanned.count,
    scanned.fractional_count,
    to_char(scanned.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    to_json(coalesce(scanned.idempotency_key, '')),
    scanned.metadata,
    to_json(scanned.attribution),
    to_json(scanned.refunded_count > 0),
    scanned.refunded_count
  ) END
`;

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
 * Reads one page of a list, newest first. PostgreSQL writes the JSON, which is not parsed here. The aggregates rely on the
 * subquery's order, which PostgreSQL's documentation of aggregate functions allows; an ORDER BY in each would sort the page
 * twice more.
 *
 * The limit of rows comes before the filter of metadata, which no index serves (ADR 52): a page takes milliseconds
 * however few registrations match. Adding up the bytes of a whole page is cheap; only if they are too many, a running sum
 * finds the rows that fit.
 * @returns null if nothing follows
 */
export const readPage = async (
  copies: CopyPool,
  owner: Owner,
  filter: RegistrationFilter,
  {
    after,
    limits,
    separator,
    isBulk,
  }: {
    readonly after: ListPosition | null;
    readonly limits: PageLimits;
    readonly separator: RowSeparator;
    /** Whether the page follows others of a long list. */
    readonly isBulk: boolean;
  },
): Promise<ListPage | null> => {
  const clauses = following(owner, filter, after);
  const pieces = await copies.copy(
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
      SELECT
        min(page.created_at),
        (array_agg(page.id))[count(*)],
        count(*) < (SELECT rows FROM page_limit),
        string_agg(page.json, ${separator})
      FROM (
        SELECT
          scanned.id,
          scanned.created_at,
          ${jsonOf(filter)} AS json
        FROM (
          ${listedOf(clauses)}
          ${newestFirst}
          LIMIT (SELECT rows FROM page_limit)
        ) AS scanned
      ) AS page
      HAVING count(*) > 0
    `,
    { isBulk },
  );
  return parsePage(pieces);
};
