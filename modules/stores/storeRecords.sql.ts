import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { donationCore } from "../charities/donations.rules.ts";
import type { RecordOwner, RecordTable } from "../records/ownedRecords.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import {
  allOf,
  columnName,
  columnsOf,
  countRow,
  inMicroseconds,
  safeInteger,
  sql,
  timestamp,
} from "../../db/sql.ts";
import { conditionsOf } from "./customers.rules.ts";
import type { ImpactFilter, KnownCustomer, RefundFilter } from "./customers.rules.ts";
import { isFiltered, isOfCustomer, REFUND_CONDITIONS } from "./customers.sql.ts";
import { REFUNDS } from "./personalData.sql.ts";
import { donationRecordJson, impactRecordJson } from "./storeRecords.rules.ts";
import { MAXIMUM_RECORDS } from "./storeRefunds.rules.ts";
import type { StoreRefundWrite } from "./storeWrites.rules.ts";

const customerJson = sql.fragment`
  'customer_name', coalesce(customer_name, ''),
  'customer_email', coalesce(customer_email, ''),
  'customer_id', coalesce(customer_id, ''),
  'order_id', coalesce(order_id, '')
`;

const shownId = sql.fragment`coalesce(imported_id, id::text)`;

/** The names and values of a record's JSON as clients see it: of an `ImpactRecord` or a `DonationRecord`. */
const RECORD_JSON: Readonly<Record<RecordTable, FragmentSqlToken>> = {
  registration: sql.fragment`
    'id', ${shownId},
    'count', count,
    'refunded_count', refunded_count,
    ${customerJson},
    'notes', coalesce(notes, ''),
    'created_at', ${inMicroseconds(sql.identifier(["created_at"]))}
  `,
  donation: sql.fragment`
    'id', ${shownId},
    'amount', amount_cents / 100.0,
    'amount_cents', amount_cents,
    'currency', 'USD',
    'charity_name', charity_name,
    'ein', coalesce(substr(ein, 1, 2) || '-' || substr(ein, 3), ''),
    'nonprofit_id', nonprofit_id,
    ${customerJson},
    'refunded', refunded,
    'created_at', ${inMicroseconds(sql.identifier(["created_at"]))}
  `,
};

const SCHEMAS = { registration: impactRecordJson, donation: donationRecordJson } as const;

const jsonRow = z.strictObject({ record: z.unknown() });

const newestFirst = sql.fragment`ORDER BY created_at DESC, id DESC`;

/**
 * Returns a page of the owner's records, newest first, including refunded ones. No two have the same time.
 * @param part.after the time that they are older than
 */
export const listStoreRecords = async <Table extends RecordTable>(
  db: CommonQueryMethods,
  table: Table,
  owner: RecordOwner,
  filter: ImpactFilter,
  { after, limit }: { readonly after: string | null; readonly limit: number },
) => {
  const records = await db.anyFirst(sql.type(jsonRow)`
    SELECT json_build_object(${RECORD_JSON[table]}) AS record
    FROM ${sql.identifier([table])}
    WHERE ${isFiltered(table, owner, filter)}
      AND created_at < ${timestamp(after ?? "infinity")}
    ${newestFirst}
    LIMIT ${limit}
  `);
  return z.array(SCHEMAS[table]).parse(records);
};

/** Returns the units of the matching registrations, or the cents of the donations, less what was refunded. */
export const sumStoreRecords = (
  db: CommonQueryMethods,
  table: RecordTable,
  owner: RecordOwner,
  filter: ImpactFilter,
) => {
  const left =
    table === "registration"
      ? sql.fragment`count - refunded_count`
      : sql.fragment`CASE WHEN refunded THEN 0 ELSE amount_cents END`;
  return db.oneFirst(sql.type(countRow)`
    SELECT coalesce(sum(${left}), 0)::bigint AS count
    FROM ${sql.identifier([table])}
    WHERE ${isFiltered(table, owner, filter)}
  `);
};

type Selection = Pick<StoreRefundWrite, "accountId" | "mode" | "refunded" | "quantity" | "filter">;

const SELECTION = {
  accountId: "uuid",
  mode: "text",
  refunded: "text",
  quantity: "int8",
  wholeName: "text",
  email: "text",
  id: "text",
  orderId: "text",
} as const;

const BY_NAME = "wholeName";

const isByName = (filter: RefundFilter): boolean => conditionsOf(filter).join("_") === BY_NAME;

const rowByName = ({ accountId, mode, refunded, quantity, filter }: Selection) => sql.fragment`
  SELECT
    1::bigint AS place, ${accountId}::uuid AS account_id, ${mode}::text AS mode, ${refunded}::text AS refunded,
    ${quantity}::bigint AS quantity, ${filter.wholeName ?? null}::text AS whole_name
`;

const given = (property: keyof typeof SELECTION) => sql.identifier(["given", columnName(property)]);

/**
 * The newest records that each of several refunds with the same conditions selects.
 * @param isLeft the condition that something is left to refund
 */
const newestOf = (
  table: RecordTable,
  selections: readonly Selection[],
  columns: FragmentSqlToken,
  isLeft: FragmentSqlToken,
  lock = sql.fragment``,
) => {
  const [first] = selections;
  const filter = first?.filter ?? {};
  const rows = selections.map((selection) => ({ ...selection, ...selection.filter }));
  const conditions = (["wholeName", "email", "id", "orderId"] as const)
    .filter((name) => filter[name] !== undefined)
    .map((name) => REFUND_CONDITIONS[name](table, given(name)));
  const isOfKind =
    table === "registration" ? sql.fragment`kind = ${given("refunded")}` : sql.fragment`true`;
  return sql.fragment`
    SELECT newest.*
    FROM (${first && isByName(filter) ? rowByName(first) : jsonRows(SELECTION, rows)}) AS given
    CROSS JOIN LATERAL (
      SELECT given.place, ${columns}
      FROM ${sql.identifier([table])}
      WHERE account_id = ${given("accountId")} AND mode = ${given("mode")} AND ${isOfKind}
        AND ${allOf(isLeft, ...conditions)}
      ${newestFirst}
      LIMIT least(${given("quantity")}, ${MAXIMUM_RECORDS})
      ${lock}
    ) AS newest
    ORDER BY newest.place, newest."createdAt" DESC, newest.id DESC
  `;
};

/**
 * Returns what refunds select. Those with the same conditions share a query, except those by a name alone: the name and the
 * quantity decide whether the index of names is the best, so the planner sees their values.
 * @param list returns what a group selects, with the place in the group of each
 */
const listByGroups = async <Selected extends Selection, Row extends { readonly place: number }>(
  selections: readonly Selected[],
  list: (group: readonly Selected[], conditions: string) => Promise<readonly Row[]>,
) => {
  const groups = Map.groupBy(selections, (selection) =>
    isByName(selection.filter) ? selection : conditionsOf(selection.filter).join("_"),
  );
  const found = await Promise.all(
    Array.from(groups.values(), async (group) => {
      const conditions = conditionsOf(group[0]?.filter ?? {}).join("_");
      const byPlace = Map.groupBy(await list(group, conditions), ({ place }) => place);
      return group.map((selection, index) => [selection, byPlace.get(index + 1) ?? []] as const);
    }),
  );
  return new Map(found.flat());
};

const unitsRow = z.strictObject({
  place: safeInteger,
  id: z.uuid(),
  count: safeInteger,
  unitPriceCents: safeInteger,
  createdAt: z.date(),
});

/** Lists the newest registrations that refunds select, with the units that they have left and the price of each. */
export const listNewestUnits = <Selected extends Selection>(
  db: CommonQueryMethods,
  refunds: readonly Selected[],
) => {
  const columns = sql.fragment`
    id, count - refunded_count AS count, unit_price_cents AS "unitPriceCents", created_at AS "createdAt"
  `;
  const isLeft = sql.fragment`unit_price_cents IS NOT NULL AND refunded_count < count`;
  return listByGroups(refunds, (group, conditions) => {
    const type =
      conditions === BY_NAME
        ? sql.type(unitsRow)
        : sql.prepared(`list_newest_units_${conditions}`, unitsRow);
    return db.any(type`${newestOf("registration", group, columns, isLeft)}`);
  });
};

const donationUnit = donationCore.extend({
  place: safeInteger,
  count: z.int(),
  unitPriceCents: z.int(),
});

/** Locks the newest donations that refunds select, until the transaction ends. Each is a unit whose price is not repaid. */
export const lockNewestDonations = <Selected extends Selection>(
  transaction: DatabaseTransactionConnection,
  refunds: readonly Selected[],
) => {
  const columns = sql.fragment`${columnsOf("donation", donationCore)}, 1 AS count, 0 AS "unitPriceCents"`;
  const isLeft = sql.fragment`NOT refunded`;
  return listByGroups(refunds, (group) =>
    transaction.any(sql.type(donationUnit)`
      ${newestOf("donation", group, columns, isLeft, sql.fragment`FOR UPDATE`)}
    `),
  );
};

/** What an export adds to a record of a list, besides its mode and its refunds. */
const PERSONAL_JSON: Readonly<Record<RecordTable, FragmentSqlToken>> = {
  registration: sql.fragment`'kind', kind`,
  donation: sql.fragment`'refunded_at', (
    SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    FROM donation_refund
    WHERE donation_id = donation.id
  )`,
};

/** Lists a customer's registrations or donations in both modes, newest first, each with its refunds' reasons, oldest first. */
export const listPersonalRecords = (
  db: CommonQueryMethods,
  table: RecordTable,
  accountId: string,
  customer: KnownCustomer,
  limit: number,
) => {
  const { table: refunds, record } = REFUNDS[table];
  return db.anyFirst(sql.type(jsonRow)`
    SELECT json_build_object(
      ${RECORD_JSON[table]},
      'mode', mode,
      'refund_reasons', ARRAY(
        SELECT reason
        FROM ${sql.identifier([refunds])} AS refund
        WHERE ${sql.identifier(["refund", record])} = ${sql.identifier([table, "id"])} AND reason IS NOT NULL
        ORDER BY refund.created_at
      ),
      ${PERSONAL_JSON[table]}
    ) AS record
    FROM ${sql.identifier([table])}
    WHERE ${isOfCustomer(table, accountId, customer)}
    ${newestFirst}
    LIMIT ${limit}
  `);
};
