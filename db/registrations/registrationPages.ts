import type { FragmentSqlToken, ListSqlToken } from "slonik";
import { isUuid } from "../../domain/fields.ts";
import type { Owner, RegistrationFilter } from "../../domain/registrations/registrations.ts";
import type { CopyPool } from "../copyPool.ts";
import { COLUMN_END } from "../copyPool.ts";
import { ownedBy } from "./registrations.ts";
import { sql } from "../sql.ts";

const idCondition = (id: string): FragmentSqlToken =>
  isUuid(id) ? sql.fragment`registration.id = ${id}` : sql.fragment`FALSE`;

const conditions = (owner: Owner, filter: RegistrationFilter): ListSqlToken =>
  sql.join(
    [
      ownedBy(owner),
      ...(filter.id === undefined ? [] : [idCondition(filter.id)]),
      ...(filter.attribution === undefined
        ? []
        : [sql.fragment`registration.attribution = ${filter.attribution}`]),
      ...(filter.from === undefined
        ? []
        : [sql.fragment`registration.created_at >= ${filter.from.toISOString()}::timestamptz`]),
      ...(filter.until === undefined
        ? []
        : [sql.fragment`registration.created_at < ${filter.until.toISOString()}::timestamptz`]),
      ...Object.entries(filter.metadata ?? {}).map(
        ([key, value]) =>
          sql.fragment`registration.metadata -> ${key} = ${JSON.stringify(value)}::jsonb`,
      ),
    ],
    sql.fragment` AND `,
  );

/** The last registration of a page; the time has the database's precision. */
export type ListPosition = { readonly createdAt: string; readonly id: string };

/** One page of a list: the JSON of its objects, separated by commas, in chunks. */
export type ListPage = { readonly json: readonly Buffer[]; readonly last: ListPosition };

const parsePage = (pieces: readonly Buffer[]): ListPage | null => {
  const [first, ...rest] = pieces;
  if (!first) {
    return null;
  }
  const createdAtEnd = first.indexOf(COLUMN_END);
  const idEnd = first.indexOf(COLUMN_END, createdAtEnd + 1);
  if (createdAtEnd < 0 || idEnd < 0) {
    // The position spans several chunks.
    return parsePage([Buffer.concat(pieces)]);
  }
  return {
    json: [first.subarray(idEnd + 1), ...rest],
    last: {
      createdAt: first.toString("latin1", 0, createdAtEnd),
      id: first.toString("latin1", createdAtEnd + 1, idEnd),
    },
  };
};

/**
 * Reads one page of a list, newest first. PostgreSQL writes the JSON, which is not parsed here; `format` takes half the
 * time of `json_build_object`. The aggregates rely on the subquery's order, which PostgreSQL's documentation of aggregate
 * functions allows; an ORDER BY in each would sort the page twice more.
 * @returns null if nothing follows
 */
export const readPage = async (
  copies: CopyPool,
  owner: Owner,
  filter: RegistrationFilter,
  page: { readonly after: ListPosition | null; readonly size: number },
): Promise<ListPage | null> => {
  const pieces = await copies.copy(sql.fragment`
    SELECT
      min(page.created_at),
      (array_agg(page.id))[count(*)],
      string_agg(page.json, ',')
    FROM (
      SELECT
        registration.id,
        registration.created_at,
        format(
          '{"id":"%s","count":%s,"fractional_count":%s,"created_at":"%s","idempotency_key":%s,"metadata":%s,"attribution":%s,"refunded":%s,"refunded_count":%s}',
          registration.id,
          registration.count,
          registration.fractional_count,
          to_char(registration.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
          to_json(coalesce(registration.idempotency_key, '')),
          registration.metadata,
          to_json(registration.attribution),
          to_json(registration.refunded_count > 0),
          registration.refunded_count
        ) AS json
      FROM registration
      WHERE ${conditions(owner, filter)}
      ${
        page.after
          ? sql.fragment`AND (registration.created_at, registration.id) < (${page.after.createdAt}::timestamptz, ${page.after.id}::uuid)`
          : sql.fragment``
      }
      ORDER BY registration.created_at DESC, registration.id DESC
      LIMIT ${page.size}
    ) AS page
    HAVING count(*) > 0
  `);
  return parsePage(pieces);
};
