import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { isOrderOfTree } from "../planting/orders.sql.ts";
import { z } from "zod";
import { ORDER_STAGES } from "../planting/order.rules.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";
import type { RecordField } from "./lookup.rules.ts";
import { kindColumn, modeColumn } from "../records/columns.sql.ts";
import { safeInteger, sql, values } from "../../db/sql.ts";
import { registrationsOfEvent } from "../billing/registrationFacts.sql.ts";
import { REFUND_OPERATIONS, REGISTER_OPERATIONS } from "../records/idempotencyKeys.rules.ts";
import type { Operation } from "../records/idempotencyKeys.rules.ts";
import { hasAttribution, importedRecord } from "../records/ownedRecords.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import {
  customerColumns,
  customerRow,
  hasCustomerId,
  hasEmail,
  hasNameWith,
  hasOrder,
} from "../stores/customers.sql.ts";
import type { LookupOptions } from "./accountLookups.sql.ts";
import { inAccount, accountColumns, accountFields, knownKeysOf } from "./accountLookups.sql.ts";

/*
 * Look-ups for operators, across all accounts and modes. A field whose index starts with the account is looked up in each
 * account: that costs an index search per account and mode, while a separate index would slow down each registration.
 */

const searchedRow = {
  ...customerRow,
  attribution: z.string(),
  idempotencyKey: z.string().nullable(),
};

/** The columns that records are searched by. */
const searchedColumns = (table: RecordTable): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return sql.fragment`
    ${column("attribution")},
    ${column("idempotency_key")} AS "idempotencyKey",
    ${customerColumns(table)}
  `;
};

const registrationRow = z.strictObject({
  ...accountFields,
  ...searchedRow,
  id: z.uuid(),
  importedId: z.string().nullable(),
  mode: modeColumn,
  kind: kindColumn,
  count: safeInteger,
  refundedCount: safeInteger,
  createdAt: z.date(),
  isPrepaid: z.boolean(),
  orderStage: z.enum(ORDER_STAGES).nullable(),
  plantingOrder: z.string().nullable(),
});
export type FoundRegistration = Readonly<z.output<typeof registrationRow>>;

const registrationColumns = sql.fragment`
  ${accountColumns},
  ${searchedColumns("registration")},
  registration.id,
  registration.imported_id AS "importedId",
  registration.mode,
  registration.kind,
  registration.count,
  registration.refunded_count AS "refundedCount",
  registration.created_at AS "createdAt",
  registration.unit_price_cents IS NOT NULL AS "isPrepaid",
  planting_order.stage AS "orderStage",
  planting_order.public_id AS "plantingOrder"
`;

const donationRow = z.strictObject({
  ...accountFields,
  ...searchedRow,
  id: z.uuid(),
  importedId: z.string().nullable(),
  mode: modeColumn,
  amountCents: safeInteger,
  charityName: z.string(),
  refunded: z.boolean(),
  createdAt: z.date(),
});
export type FoundDonation = Readonly<z.output<typeof donationRow>>;

const donationColumns = sql.fragment`
  ${accountColumns},
  ${searchedColumns("donation")},
  donation.id,
  donation.imported_id AS "importedId",
  donation.mode,
  donation.amount_cents AS "amountCents",
  donation.charity_name AS "charityName",
  donation.refunded,
  donation.created_at AS "createdAt"
`;

/** The account, mode and kind of the current partition. */
const scopeOfPartition = (table: RecordTable) => ({
  accountId: sql.fragment`account.id`,
  mode: sql.fragment`mode.mode`,
  kind: table === "donation" ? sql.fragment`'donation'` : sql.fragment`kind.kind`,
});

/** The condition of a field, in the form that the index over accounts, modes and kinds serves. */
const fieldCondition = (table: RecordTable, field: RecordField, text: string): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return {
    imported_id: sql.fragment`${column("id")} = ${importedRecord(table, scopeOfPartition(table), sql.fragment`${text}`)}`,
    attribution: hasAttribution(table, text),
    order: hasOrder(table, text),
    customer_email: hasEmail(table, text),
    customer_id: hasCustomerId(table, text),
  }[field];
};

const STORE_FIELDS: ReadonlySet<RecordField> = new Set(["order", "customer_email", "customer_id"]);

/** The condition of the accounts that may have a field: only stores have orders and customers. */
const accountCondition = (field: RecordField, accountId: string | null): FragmentSqlToken =>
  STORE_FIELDS.has(field)
    ? sql.fragment`${inAccount(accountId)} AND account.type = 'store'`
    : inAccount(accountId);

/** How an idempotency key leads to records. */
type KeySource = {
  readonly operations: readonly Operation[];
  /** The record's id, of the column `known.record_id`. */
  readonly recordId: FragmentSqlToken;
};

/** A query of the records of organizations that have a key. Of stores' keys, `listStoreWritesByKey` shows the requests. */
const rowsWithKey = (
  table: RecordTable,
  { operations, recordId }: KeySource,
  { text, accountId }: LookupOptions,
): FragmentSqlToken => sql.fragment`(
  SELECT ${sql.identifier([table])}.*
  FROM ${sql.identifier([table])}
  WHERE ${sql.identifier([table, "id"])} = ANY(ARRAY(
    SELECT ${recordId} FROM (${knownKeysOf("organization", operations, { text, accountId })}) AS known
  ))
)`;

/** What differs between the records. */
type RecordSource<Found> = {
  readonly table: RecordTable;
  readonly row: z.ZodType<Found>;
  readonly columns: FragmentSqlToken;
  /** Joins what the columns need beside the record and its account. */
  readonly join: FragmentSqlToken;
  /** Rows for each value of the columns that follow the account in the indexes. */
  readonly partitions: FragmentSqlToken;
  /** The condition that a row of a table is in the current partition. */
  readonly inPartition: (table: string) => FragmentSqlToken;
  /** The condition that a record has an id, or one of its refunds does. */
  readonly hasId: (id: string) => FragmentSqlToken;
  readonly keys: KeySource;
  readonly refundKeys: KeySource;
};

/** The look-ups of one kind of record. The `…Query` functions let a test ask PostgreSQL for their plans. */
export type RecordLookups<Found> = {
  readonly byFieldQuery: (field: RecordField, options: LookupOptions) => FragmentSqlToken;
  readonly byNameQuery: (options: LookupOptions) => FragmentSqlToken;
  readonly byKeyQuery: (options: LookupOptions) => FragmentSqlToken;
  readonly byRefundKeyQuery: (options: LookupOptions) => FragmentSqlToken;
  readonly listByField: (
    db: CommonQueryMethods,
    field: RecordField,
    options: LookupOptions,
  ) => Promise<readonly Found[]>;
  /** Finds a part of a customer's name of at least three characters. */
  readonly listByName: List<Found>;
  /** Finds a record by its own id or by that of one of its refunds. */
  readonly listById: List<Found>;
  readonly listByKey: List<Found>;
  /** Finds a record by the key of one of its refunds. */
  readonly listByRefundKey: List<Found>;
  /** Lists the records that a condition selects. */
  readonly listWhere: (
    db: CommonQueryMethods,
    condition: FragmentSqlToken,
    options: LookupOptions,
  ) => Promise<readonly Found[]>;
};
type List<Found> = (db: CommonQueryMethods, options: LookupOptions) => Promise<readonly Found[]>;

const createLookups = <Found>(source: RecordSource<Found>): RecordLookups<Found> => {
  const { table, row, columns, join, partitions, inPartition, hasId } = source;
  const record = sql.identifier([table]);
  const column = (name: string) => sql.identifier([table, name]);
  const newestFirst = sql.fragment`ORDER BY ${column("created_at")} DESC, ${column("id")} DESC`;

  const select = (
    rows: FragmentSqlToken,
    { accountId, limit }: LookupOptions,
  ): FragmentSqlToken => sql.fragment`
    SELECT ${columns}
    FROM ${rows} AS ${record}
    JOIN account ON account.id = ${column("account_id")}
    ${join}
    WHERE ${inAccount(accountId)}
    ${newestFirst}
    LIMIT ${limit}
  `;
  const selectWhere = (condition: FragmentSqlToken, options: LookupOptions): FragmentSqlToken =>
    select(sql.fragment`(SELECT * FROM ${record} WHERE ${condition})`, options);

  const byFieldQuery = (
    field: RecordField,
    { text, accountId, limit }: LookupOptions,
  ): FragmentSqlToken => sql.fragment`
    SELECT ${columns}
    FROM account
    ${partitions}
    CROSS JOIN LATERAL (
      SELECT *
      FROM ${record}
      WHERE ${column("account_id")} = account.id
        AND ${inPartition(table)}
        AND ${fieldCondition(table, field, text)}
      ${newestFirst}
      LIMIT ${limit}
    ) AS ${record}
    ${join}
    WHERE ${accountCondition(field, accountId)}
    ${newestFirst}
    LIMIT ${limit}
  `;
  const byNameQuery = (options: LookupOptions): FragmentSqlToken =>
    selectWhere(hasNameWith(table, options.text), options);
  const byKeyQuery = (options: LookupOptions): FragmentSqlToken =>
    select(rowsWithKey(table, source.keys, options), options);
  const byRefundKeyQuery = (options: LookupOptions): FragmentSqlToken =>
    select(rowsWithKey(table, source.refundKeys, options), options);
  const list = (db: CommonQueryMethods, query: FragmentSqlToken): Promise<readonly Found[]> =>
    db.any(sql.type(row)`${query}`);

  return {
    byFieldQuery,
    byNameQuery,
    byKeyQuery,
    byRefundKeyQuery,
    listByField: (db, field, options) => list(db, byFieldQuery(field, options)),
    listByName: (db, options) => list(db, byNameQuery(options)),
    listById: (db, options) => list(db, selectWhere(hasId(options.text), options)),
    listByKey: (db, options) => list(db, byKeyQuery(options)),
    listByRefundKey: (db, options) => list(db, byRefundKeyQuery(options)),
    listWhere: (db, condition, options) => list(db, selectWhere(condition, options)),
  };
};

const inMode = (table: string): FragmentSqlToken =>
  sql.fragment`${sql.identifier([table, "mode"])} = mode.mode`;

export const registrationLookups = createLookups({
  table: "registration",
  row: registrationRow,
  columns: registrationColumns,
  // The OFFSET keeps the planner from reading all orders: it expects as many records as there are accounts.
  join: sql.fragment`
    LEFT JOIN LATERAL (
      SELECT * FROM planting_order WHERE ${isOrderOfTree} OFFSET 0
    ) AS planting_order ON true
  `,
  partitions: sql.fragment`CROSS JOIN ${values(MODES)} AS mode CROSS JOIN ${values(KINDS)} AS kind`,
  inPartition: (table) =>
    sql.fragment`${inMode(table)} AND ${sql.identifier([table, "kind"])} = kind.kind`,
  hasId: (id) =>
    sql.fragment`id = ANY(ARRAY[${id}::uuid, (SELECT registration_id FROM refund WHERE id = ${id})])`,
  keys: { operations: Object.values(REGISTER_OPERATIONS), recordId: sql.fragment`known.record_id` },
  refundKeys: {
    operations: [...Object.values(REFUND_OPERATIONS), "operator_refund"],
    recordId: sql.fragment`(SELECT registration_id FROM refund WHERE refund.id = known.record_id)`,
  },
});

export const donationLookups = createLookups({
  table: "donation",
  row: donationRow,
  columns: donationColumns,
  join: sql.fragment``,
  partitions: sql.fragment`CROSS JOIN ${values(MODES)} AS mode`,
  inPartition: inMode,
  hasId: (id) => sql.fragment`id = ${id}`,
  keys: { operations: ["donate"], recordId: sql.fragment`known.record_id` },
  refundKeys: { operations: ["refund_donate"], recordId: sql.fragment`known.record_id` },
});

/** Lists the registrations whose usage is in a meter event. */
export const listRegistrationsOfMeterEvent = (
  db: CommonQueryMethods,
  meterEventId: bigint,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  registrationLookups.listWhere(
    db,
    sql.fragment`id IN (
      SELECT counted.id
      FROM meter_event
      CROSS JOIN LATERAL (${registrationsOfEvent}) AS counted
      WHERE meter_event.id = ${meterEventId}
    )`,
    options,
  );

/** Lists the registrations of a store's order. */
export const listRegistrationsOfOrder = (
  db: CommonQueryMethods,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> => registrationLookups.listByField(db, "order", options);
