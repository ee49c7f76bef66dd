import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { Metadata } from "../records/fields.rules.ts";
import type { RegistrationFilter, Registration, Totals } from "./registrations.rules.ts";
import { attributionCondition, ownedWithId } from "../records/ownedRecords.sql.ts";
import { olderThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { allOf, inRange, sql, timestamp } from "../../db/sql.ts";
import { readRegistrationValues, registrationValues } from "./registrationColumns.sql.ts";
import { FIRST_ID } from "../records/recordIds.rules.ts";
import { totalColumns, totalsOf } from "./totals.sql.ts";

/**
 * Each pair must be equal. Containment decides that for all pairs with one look at the stored metadata, but it also
 * accepts objects and arrays that contain more, so what it accepts is compared as well.
 */
const metadataCondition = (metadata: Metadata) => {
  const pairs = sql.fragment`${JSON.stringify(metadata)}::jsonb`;
  return sql.fragment`
    registration.metadata @> ${pairs}
    AND NOT EXISTS (SELECT FROM jsonb_each(${pairs}) WHERE registration.metadata -> key <> value)
  `;
};

const positionRow = z.strictObject({ position: z.string(), id: z.uuid() });

export const findListPosition = (db: CommonQueryMethods, owner: Owner, id: string) =>
  db.maybeOne(sql.prepared("find_list_position", positionRow)`
    SELECT ${positionColumn("registration")}, registration.id
    FROM registration
    WHERE ${ownedWithId("registration", owner, id)}
  `);

type ListPage = {
  /** Those that match. They are read one by one as they are needed; until then the page holds their text. */
  readonly registrations: Iterable<Registration>;
  /** The last registration that the page has read, shown or not. */
  readonly last: ListPosition;
  /** Whether it has read fewer registrations than it could, so that nothing follows. */
  readonly isLast: boolean;
};

/** How much a page reads, matching or not. A single registration with more bytes of JSON is a page of its own. */
type PageLimits = { readonly rows: number; readonly bytes: number };

/**
 * The most registrations that a page reads. The API's largest `limit` and one more: a request for so many has one query.
 * Pages of 2,500 are no faster, and their text lets the process grow by twice as much.
 */
export const PAGE_ROWS = 1001;

function* readLines(lines: string): Generator<Registration, void, void> {
  for (let start = 0; start < lines.length;) {
    const end = lines.indexOf("\n", start);
    yield readRegistrationValues(lines.slice(start, end));
    start = end + 1;
  }
}

const newestFirst = sql.fragment`ORDER BY registration.created_at DESC, registration.id DESC`;

/** Returns the position before which a page begins: that of the previous page's end, or the end of the range. */
const upperBound = ({ until }: RegistrationFilter, after: ListPosition | null): ListPosition =>
  after !== null && (until === undefined || new Date(after.position) < until)
    ? after
    : { position: until?.toISOString() ?? "infinity", id: FIRST_ID };

/**
 * The registrations of a page, from the listing or from that of an attribution. The planner sees no value and expects a
 * large part of the table, of which the literal limit leaves little. So it reads the index in its order, whatever it
 * knows about the account, and needs to plan that only once.
 */
const inOrderOfIndex = (owner: Owner, filter: RegistrationFilter, after: ListPosition | null) => {
  const { position, id } = upperBound(filter, after);
  const none = sql.fragment``;
  const of =
    filter.attribution === undefined || filter.attribution === ""
      ? { column: none, value: none, order: none, condition: none }
      : {
          column: sql.fragment`, text_digest(attribution)`,
          value: sql.fragment`, (SELECT text_digest(${filter.attribution}))`,
          order: sql.fragment`text_digest(attribution) DESC,`,
          condition: sql.fragment`AND attribution <> ''`,
        };
  const values = sql.fragment`
    (SELECT ${owner.accountId}::uuid), (SELECT ${owner.mode}::text), (SELECT ${owner.kind}::text) ${of.value}
  `;
  return sql.fragment`
    SELECT *
    FROM registration
    WHERE (account_id, mode, kind ${of.column}, created_at, id) < (
        ${values}, (SELECT ${timestamp(position)}), (SELECT ${id}::uuid)
      )
      AND (account_id, mode, kind ${of.column}, created_at) >= (
        ${values}, (SELECT ${timestamp(filter.from ?? "-infinity")})
      )
      ${of.condition}
    ORDER BY account_id DESC, mode DESC, kind DESC, ${of.order} created_at DESC, id DESC
    LIMIT ${sql.literalValue(String(PAGE_ROWS))}
  `;
};

const withId = (
  owner: Owner,
  filter: RegistrationFilter & { readonly id: string },
  after: ListPosition | null,
) => sql.fragment`
  SELECT registration.*
  FROM registration
  WHERE ${allOf(
    ownedWithId("registration", owner, filter.id),
    olderThan("registration", after),
    ...inRange(sql.identifier(["registration", "created_at"]), filter),
  )}
  ${newestFirst}
`;

/**
 * The condition of the filters that no index serves (ADR 7). They are applied to the rows of a page, which so takes
 * milliseconds however few registrations match.
 */
const matches = ({ id, attribution, metadata }: RegistrationFilter) =>
  allOf(
    metadata !== undefined && metadataCondition(metadata),
    attribution !== undefined &&
      (attribution === "" || id !== undefined) &&
      attributionCondition("registration", attribution),
  );

/** Returns the name of a page's statement, with what its text depends on; null if that is more than what is named. */
const statementName = (
  { id, attribution, from, until, metadata }: RegistrationFilter,
  after: ListPosition | null,
): string | null => {
  if (id !== undefined) {
    const others = [attribution, from, until, metadata, after ?? undefined];
    return others.every((other) => other === undefined) ? "list_registration" : null;
  }
  return [
    "list_page",
    attribution === undefined ? [] : attribution === "" ? "unattributed" : "of_attribution",
    metadata === undefined ? [] : "with_metadata",
  ]
    .flat()
    .join("_");
};

const pageRow = z.strictObject({
  ...totalColumns,
  /** Of the last registration; null, like its id, if nothing follows. */
  position: z.string().nullable(),
  id: z.uuid().nullable(),
  isLast: z.boolean(),
  /** A line for each registration that matches; null if none does. */
  lines: z.string().nullable(),
});

/**
 * Reads one page of a list, newest first, and the owner's totals as of a time. Registrations are one text until they are
 * needed: a client that reads slowly holds that, and no objects.
 * @param part.limits at most `PAGE_ROWS` rows
 * @returns the page null if nothing follows
 */
export const readPage = async (
  db: CommonQueryMethods,
  owner: Owner,
  filter: RegistrationFilter,
  part: { readonly after: ListPosition | null; readonly limits: PageLimits; readonly now: Date },
): Promise<{ readonly totals: Totals; readonly page: ListPage | null }> => {
  const { after, limits, now } = part;
  const { id: givenId } = filter;
  const rows =
    givenId === undefined
      ? inOrderOfIndex(owner, filter, after)
      : withId(owner, { ...filter, id: givenId }, after);
  const name = statementName(filter, after);
  const statement = name === null ? sql.type(pageRow) : sql.prepared(name, pageRow);
  const { all, month, position, id, isLast, lines } = await db.one(statement`
    SELECT totals."all", totals.month, page.*
    FROM ${totalsOf(owner, now)}
    CROSS JOIN (
      SELECT
        (min(scanned.created_at) FILTER (WHERE scanned.scan_fits))::text AS position,
        (array_agg(scanned.id) FILTER (WHERE scanned.scan_fits))[count(*) FILTER (WHERE scanned.scan_fits)] AS id,
        coalesce(bool_and(scanned.scan_fits), TRUE) AND count(*) < ${limits.rows} AS "isLast",
        string_agg(${registrationValues("scanned")} || chr(10), '')
          FILTER (WHERE scanned.scan_fits AND scanned.scan_matches) AS lines
      FROM (
        SELECT
          registration.*,
          ${matches(filter)} AS scan_matches,
          -- The first one, however long it is, has only its own bytes.
          registration.scan_bytes <= ${limits.bytes} OR registration.scan_bytes = registration.json_bytes AS scan_fits
        FROM (
          -- In the order of the rows. With an ORDER BY, all of them would be read and sorted.
          SELECT registration.*, sum(registration.json_bytes) OVER (ROWS UNBOUNDED PRECEDING) AS scan_bytes
          FROM (SELECT registration.* FROM (${rows}) AS registration LIMIT ${limits.rows}) AS registration
        ) AS registration
      ) AS scanned
    ) AS page
  `);
  return {
    totals: { all, month },
    page:
      position === null || id === null
        ? null
        : {
            registrations: { [Symbol.iterator]: () => readLines(lines ?? "") },
            last: { position, id },
            isLast,
          },
  };
};
