import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { afterLookup, columnsOf, safeInteger, sql, values } from "../../db/sql.ts";
import { registrationsOfEvent } from "../billing/registrationFacts.sql.ts";
import { ORDER_STAGES } from "../planting/order.rules.ts";
import { isOrderOfTree } from "../planting/orders.sql.ts";
import { kindColumn, modeColumn } from "../records/columns.sql.ts";
import { REFUND_OPERATIONS, REGISTER_OPERATIONS } from "../records/idempotencyKeys.rules.ts";
import type { Operation } from "../records/idempotencyKeys.rules.ts";
import { keyHash } from "../records/idempotencyKeys.sql.ts";
import { EACH_SCOPE, hasAttribution, importedRecord } from "../records/ownedRecords.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";
import { hasCustomerId, hasEmail, hasNameWith, hasOrder } from "../stores/customers.sql.ts";
import type { FoundBy, Lookup } from "./lookup.rules.ts";
import { accountColumns, accountFields, inAccount, isMeterEvent } from "./accountLookups.sql.ts";

/*
 * Look-ups for operators, across all accounts and modes. A field whose index starts with the account is looked up in each
 * account: that costs an index search per account and mode, while a separate index would slow down each registration.
 */

const searchedColumns = z.strictObject({
  id: z.uuid(),
  importedId: z.string().nullable(),
  mode: modeColumn,
  attribution: z.string(),
  idempotencyKey: z.string().nullable(),
  createdAt: z.date(),
  customerName: z.string().nullable(),
  customerEmail: z.string().nullable(),
  customerId: z.string().nullable(),
  orderId: z.string().nullable(),
});

const foundFields = { ...accountFields, foundBy: z.array(z.string()) };

const registrationColumns = searchedColumns.extend({
  kind: kindColumn,
  count: safeInteger,
  refundedCount: safeInteger,
});
const registrationRow = z.strictObject({
  ...foundFields,
  ...registrationColumns.shape,
  orderStage: z.enum(ORDER_STAGES).nullable(),
  plantingOrder: z.string().nullable(),
});
export type FoundRegistration = Readonly<z.output<typeof registrationRow>>;

const donationColumns = searchedColumns.extend({
  amountCents: safeInteger,
  ein: z.string().nullable(),
  nonprofitId: z.string(),
  charityProvider: z.string(),
  charityName: z.string(),
  metadata: z.record(z.string(), z.unknown()),
  refunded: z.boolean(),
});
const donationRow = z.strictObject({
  ...foundFields,
  ...donationColumns.shape,
  /** Null if another system refunded it. */
  refundedAt: z.date().nullable(),
  refundReason: z.string().nullable(),
  refundIdempotencyKey: z.string().nullable(),
  refundMetadata: z.record(z.string(), z.unknown()).nullable(),
});
export type FoundDonation = Readonly<z.output<typeof donationRow>>;

/** What differs between registrations and donations. */
const TABLES = {
  registration: {
    kinds: KINDS,
    isOfKind: sql.fragment`registration.kind = kind.kind`,
    operations: Object.values(REGISTER_OPERATIONS),
    refundOperations: [...Object.values(REFUND_OPERATIONS), "operator_refund"],
    /** Returns the id of the record that a refund is of. */
    refundedBy: (refundId: FragmentSqlToken) =>
      sql.fragment`(SELECT registration_id FROM refund WHERE refund.id = ${refundId})`,
    columns: sql.fragment`
      ${columnsOf("registration", registrationColumns)},
      planting_order.stage AS "orderStage",
      planting_order.public_id AS "plantingOrder"
    `,
    // The OFFSET keeps the planner from reading all orders: it expects as many records as there are accounts.
    join: sql.fragment`
      LEFT JOIN LATERAL (
        SELECT * FROM planting_order WHERE ${isOrderOfTree} OFFSET 0
      ) AS planting_order ON true
    `,
  },
  donation: {
    kinds: ["donation"],
    isOfKind: sql.fragment`true`,
    operations: ["donate"],
    refundOperations: ["refund_donate"],
    // A donation is refunded whole, so its refund has no id of its own.
    refundedBy: (refundId: FragmentSqlToken) => refundId,
    columns: sql.fragment`
      ${columnsOf("donation", donationColumns)},
      donation_refund.created_at AS "refundedAt",
      donation_refund.reason AS "refundReason",
      donation_refund.idempotency_key AS "refundIdempotencyKey",
      donation_refund.metadata AS "refundMetadata"
    `,
    join: sql.fragment`LEFT JOIN donation_refund ON donation_refund.donation_id = donation.id`,
  },
} as const;

/** A way to find records: what the text is then, and a query of the ids and times of the records. */
type Search = { readonly foundBy: FoundBy; readonly rows: FragmentSqlToken };

const createSearches = (table: RecordTable, { text, accountId, limit }: Lookup) => {
  const record = sql.identifier([table]);
  const { kinds, isOfKind } = TABLES[table];

  /** Searches an index that starts with the account, the mode and the kind, for each of them. */
  const inEach = (
    foundBy: FoundBy,
    condition: FragmentSqlToken,
    accounts: FragmentSqlToken = sql.fragment`true`,
  ): Search => ({
    foundBy,
    rows: sql.fragment`
      SELECT matching.id, matching.created_at
      FROM account
      CROSS JOIN ${values(MODES)} AS mode
      CROSS JOIN ${values(kinds)} AS kind
      CROSS JOIN LATERAL (
        SELECT id, created_at
        FROM ${record}
        WHERE account_id = account.id AND ${record}.mode = mode.mode AND ${isOfKind} AND ${condition}
        ORDER BY created_at DESC, id DESC
        LIMIT ${limit}
      ) AS matching
      WHERE ${inAccount(accountId)} AND ${accounts}
    `,
  });

  /** Searches an index of all accounts. */
  const anywhere = (foundBy: FoundBy, condition: FragmentSqlToken): Search => ({
    foundBy,
    rows: sql.fragment`
      SELECT id, created_at
      FROM ${record}
      WHERE ${condition} AND ${afterLookup(accountId === null ? sql.fragment`true` : sql.fragment`account_id = ${accountId}`)}
    `,
  });

  /** Costs a search for each account, mode and operation. */
  const byKey = (
    foundBy: FoundBy,
    operations: readonly Operation[],
    recordId: FragmentSqlToken,
  ): Search => {
    const scope = { ...EACH_SCOPE, operation: sql.fragment`operation.operation` };
    return anywhere(
      foundBy,
      sql.fragment`id = ANY(ARRAY(
        SELECT ${recordId}
        FROM account
        CROSS JOIN ${values(MODES)} AS mode
        CROSS JOIN ${values(operations)} AS operation
        CROSS JOIN LATERAL (
          SELECT * FROM idempotency_key WHERE key_hash = ${keyHash(scope, sql.fragment`${text}::text`)} LIMIT 1
        ) AS known
        WHERE ${inAccount(accountId)}
      ))`,
    );
  };

  const importedAs = (id: string): Search => {
    const imported = importedRecord(table, EACH_SCOPE, sql.fragment`${id}`);
    return inEach("imported_id", sql.fragment`${record}.id = ${imported}`);
  };

  return { inEach, anywhere, byKey, importedAs };
};

/** What the text may be in metadata, as JSON: a text, a shop's order number with or without `#`, a number. */
const metadataValues = (text: string): readonly string[] => {
  const number = text.replace(/^#/u, "");
  const texts = [...new Set([text, number, `#${number}`])].map((value) => JSON.stringify(value));
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/u.test(number) ? [...texts, number] : texts;
};

const hasMetadata = (text: string) =>
  sql.fragment`metadata <> '{}' AND (${sql.join(
    metadataValues(text).map((value) => sql.fragment`metadata_values(metadata) @> ${value}::jsonb`),
    sql.fragment` OR `,
  )})`;

/** Customers and orders are fields of stores' records only; an organization has an order in the metadata. */
const STORES = sql.fragment`account.type = 'store'`;

const registrationsOf = (event: NonNullable<Lookup["meterEvent"]>) => sql.fragment`
  SELECT counted.id
  FROM meter_event
  CROSS JOIN LATERAL (${registrationsOfEvent}) AS counted
  WHERE ${isMeterEvent(event)}
`;

const listSearches = (table: RecordTable, lookup: Lookup): readonly Search[] => {
  const { text, id, refundedId, mayBeName, meterEvent } = lookup;
  const { inEach, anywhere, byKey, importedAs } = createSearches(table, lookup);
  const { operations, refundOperations, refundedBy } = TABLES[table];
  const recordId = sql.fragment`known.record_id`;
  const ids = sql.fragment`ARRAY[${id}::uuid, ${refundedBy(sql.fragment`${id}::uuid`)}]`;
  return [
    importedAs(text),
    inEach("attribution", hasAttribution(table, text)),
    inEach("order", hasOrder(table, text), STORES),
    anywhere("metadata", hasMetadata(text)),
    inEach("customer_email", hasEmail(table, text), STORES),
    inEach("customer_id", hasCustomerId(table, lookup.customerId), STORES),
    byKey("idempotency_key", operations, recordId),
    byKey("refund_idempotency_key", refundOperations, refundedBy(recordId)),
    id === null ? [] : anywhere("id", sql.fragment`id = ANY(${ids})`),
    refundedId === null ? [] : importedAs(refundedId),
    mayBeName ? anywhere("customer_name", hasNameWith(table, text)) : [],
    meterEvent !== null && table === "registration"
      ? anywhere("meter_event", sql.fragment`id IN (${registrationsOf(meterEvent)})`)
      : [],
  ].flat();
};

/**
 * A query of the records that a text may mean, the newest first. A test asks PostgreSQL for its plan.
 * @param meanings what the text may be; by default, all that is searched for
 */
export const lookupQuery = (table: RecordTable, lookup: Lookup, meanings?: readonly FoundBy[]) => {
  const record = sql.identifier([table]);
  const { limit } = lookup;
  const { columns, join } = TABLES[table];
  const hits = listSearches(table, lookup)
    .filter(({ foundBy }) => meanings?.includes(foundBy) ?? true)
    .map(
      ({ foundBy, rows }) => sql.fragment`(
        SELECT ${foundBy}::text AS found_by, id
        FROM (${rows}) AS hit
        ORDER BY created_at DESC, id DESC
        LIMIT ${limit}
      )`,
    );
  // The OFFSET makes it a look-up for each id.
  return sql.fragment`
    SELECT ${accountColumns}, found."foundBy", ${columns}
    FROM (
      SELECT id, array_agg(DISTINCT found_by) AS "foundBy"
      FROM (${sql.join(hits, sql.fragment` UNION ALL `)}) AS hit
      GROUP BY id
    ) AS found
    CROSS JOIN LATERAL (SELECT * FROM ${record} WHERE ${record}.id = found.id OFFSET 0) AS ${record}
    JOIN account ON account.id = ${record}.account_id
    ${join}
    ORDER BY ${record}.created_at DESC, ${record}.id DESC
    LIMIT ${limit}
  `;
};

/** @param meanings such as an order or its number in metadata; by default, all that is searched for */
export const listFoundRegistrations = (
  db: CommonQueryMethods,
  lookup: Lookup,
  meanings?: readonly FoundBy[],
) => db.any(sql.type(registrationRow)`${lookupQuery("registration", lookup, meanings)}`);

export const listFoundDonations = (db: CommonQueryMethods, lookup: Lookup) =>
  db.any(sql.type(donationRow)`${lookupQuery("donation", lookup)}`);
