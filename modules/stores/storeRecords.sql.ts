import type {
  CommonQueryMethods,
  DatabaseTransactionConnection,
  FragmentSqlToken,
  IdentifierSqlToken,
} from "slonik";
import { z } from "zod";
import { donationCore } from "../charities/donations.sql.ts";
import { olderThan } from "../records/listPositions.sql.ts";
import type { RecordOwner, RecordTable } from "../records/ownedRecords.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { columnName, columnsOf, inMicroseconds, safeInteger, sql } from "../../db/sql.ts";
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
): Promise<readonly z.output<(typeof SCHEMAS)[Table]>[]> => {
  const records = await db.anyFirst(sql.type(jsonRow)`
    SELECT json_build_object(${RECORD_JSON[table]}) AS record
    FROM ${sql.identifier([table])}
    WHERE ${isFiltered(table, owner, filter)}
      AND ${olderThan(table, after === null ? null : { createdAt: after, id: null })}
    ${newestFirst}
    LIMIT ${limit}
  `);
  return z.array(SCHEMAS[table]).parse(records);
};

const sumRow = z.strictObject({ sum: safeInteger });

/** Returns the units of the matching registrations, or the cents of the donations, less what was refunded. */
export const sumStoreRecords = (
  db: CommonQueryMethods,
  table: RecordTable,
  owner: RecordOwner,
  filter: ImpactFilter,
): Promise<number> => {
  const left =
    table === "registration"
      ? sql.fragment`count - refunded_count`
      : sql.fragment`CASE WHEN refunded THEN 0 ELSE amount_cents END`;
  return db.oneFirst(sql.type(sumRow)`
    SELECT coalesce(sum(${left}), 0)::bigint AS sum
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

/** Returns a value of a refund as SQL. */
type Given = (property: keyof typeof SELECTION) => FragmentSqlToken | IdentifierSqlToken;

const ofRow: Given = (property) => sql.identifier(["given", columnName(property)]);

const isByName = (filter: RefundFilter): boolean => conditionsOf(filter).join("_") === "wholeName";

/**
 * Of one refund. By a name alone, the quantity and the size of the store decide whether the index of names is the best, so
 * only then the planner sees them.
 */
const ofOne = ({ filter, ...selection }: Selection): Given => {
  const values = { ...selection, ...filter };
  return (property) => {
    const value = sql.fragment`${values[property] ?? null}::${sql.identifier([SELECTION[property]])}`;
    return isByName(filter) ? value : sql.fragment`(SELECT ${value})`;
  };
};

/**
 * The newest records that a refund selects.
 * @param filter has the conditions, which determine the text of the query
 * @param isLeft the condition that something is left to refund
 */
const newestOf = (
  table: RecordTable,
  filter: RefundFilter,
  given: Given,
  columns: FragmentSqlToken,
  isLeft: FragmentSqlToken,
): FragmentSqlToken => {
  const conditions = (["wholeName", "email", "id", "orderId"] as const)
    .filter((name) => filter[name] !== undefined)
    .map((name) => REFUND_CONDITIONS[name](table, given(name)));
  const isOfKind =
    table === "registration" ? sql.fragment`kind = ${given("refunded")}` : sql.fragment`true`;
  return sql.fragment`
    SELECT ${columns}
    FROM ${sql.identifier([table])}
    WHERE account_id = ${given("accountId")} AND mode = ${given("mode")} AND ${isOfKind}
      AND ${sql.join([isLeft, ...conditions], sql.fragment` AND `)}
    ${newestFirst}
    LIMIT least(${given("quantity")}, ${MAXIMUM_RECORDS})
  `;
};

const newestUnits = (filter: RefundFilter, given: Given, place: FragmentSqlToken) =>
  newestOf(
    "registration",
    filter,
    given,
    sql.fragment`
      ${place} AS place, id, count - refunded_count AS count, unit_price_cents AS "unitPriceCents", created_at AS "createdAt"
    `,
    sql.fragment`unit_price_cents IS NOT NULL AND refunded_count < count`,
  );

/** A query of the units that refunds with the same conditions select, which have a `place` each. */
const unitsOf = (filter: RefundFilter, selections: readonly Selection[]): FragmentSqlToken => {
  const [first] = selections;
  if (first && isByName(filter)) {
    return newestUnits(filter, ofOne(first), sql.fragment`1::bigint`);
  }
  const rows = selections.map((selection) => ({ ...selection, ...selection.filter }));
  return sql.fragment`
    SELECT newest.*
    FROM (${jsonRows(SELECTION, rows)}) AS given
    CROSS JOIN LATERAL (${newestUnits(filter, ofRow, sql.fragment`given.place`)}) AS newest
    ORDER BY newest.place, newest."createdAt" DESC, newest.id DESC
  `;
};

const unitsRow = z.strictObject({
  place: safeInteger,
  id: z.uuid(),
  count: safeInteger,
  unitPriceCents: safeInteger,
  createdAt: z.date(),
});

/**
 * Lists the newest registrations that stores have paid for and refunds select, with the units that they have left and the
 * price of each. Refunds with the same conditions share a statement, except those by name alone.
 */
export const listNewestUnits = async <Selected extends Selection>(
  db: CommonQueryMethods,
  selections: readonly Selected[],
): Promise<ReadonlyMap<Selected, readonly Readonly<z.output<typeof unitsRow>>[]>> => {
  const groups = Map.groupBy(selections, (selection) =>
    isByName(selection.filter) ? selection : conditionsOf(selection.filter).join("_"),
  );
  const found = await Promise.all(
    Array.from(groups.values(), async (group) => {
      const [{ filter } = { filter: {} }] = group;
      const name = `list_newest_units_${conditionsOf(filter).join("_")}`;
      const rows = await db.any(sql.prepared(name, unitsRow)`${unitsOf(filter, group)}`);
      const byPlace = Map.groupBy(rows, ({ place }) => place);
      return group.map((selection, index) => [selection, byPlace.get(index + 1) ?? []] as const);
    }),
  );
  return new Map(found.flat());
};

const donationUnit = donationCore.extend({ count: z.int(), unitPriceCents: z.int() });

/** Locks the newest donations that a refund selects, until the transaction ends. Each is a unit whose price is not repaid. */
export const lockNewestDonations = (
  transaction: DatabaseTransactionConnection,
  selection: Selection,
): Promise<readonly Readonly<z.output<typeof donationUnit>>[]> => {
  const columns = sql.fragment`${columnsOf("donation", donationCore)}, 1 AS count, 0 AS "unitPriceCents"`;
  return transaction.any(sql.type(donationUnit)`
    ${newestOf("donation", selection.filter, ofOne(selection), columns, sql.fragment`NOT refunded`)}
    FOR UPDATE
  `);
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
): Promise<readonly unknown[]> => {
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
