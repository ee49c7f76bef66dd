import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { RegistrationFilter, Totals } from "./registrations.rules.ts";
import { FIRST_ID } from "../records/recordIds.rules.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { sql, timestamp } from "../../db/sql.ts";
import { registrationObject, registrationRow } from "./registrationColumns.sql.ts";
import { following, newestFirst } from "./registrationPages.sql.ts";
import type { ListPage, PageLimits } from "./registrationPages.sql.ts";
import { totalColumns, totalsOf } from "./totals.sql.ts";

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
        count(*) = max(page.rows_read) AND count(*) < ${limits.rows} AS "isLast",
        json_agg(page.registration) AS registrations
      FROM (
        SELECT scanned.id, scanned.created_at, scanned.rows_read, ${registrationObject("scanned")} AS registration
        FROM (
          SELECT
            registration.*,
            count(*) OVER () AS rows_read,
            sum(registration.json_bytes) OVER (${newestFirst} ROWS UNBOUNDED PRECEDING) AS bytes
          -- In the order of the clauses. With an ORDER BY, all that they have would be read and sorted.
          FROM (SELECT registration.* ${clauses} LIMIT ${limits.rows}) AS registration
        ) AS scanned
        -- The first one, however long it is, has only its own bytes.
        WHERE scanned.bytes <= ${limits.bytes} OR scanned.bytes = scanned.json_bytes
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
