import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { afterLookup, columnsOf, safeInteger, sql, values } from "../../db/sql.ts";
import { registrationsOfEvent } from "../billing/registrationFacts.sql.ts";
import { ORDER_STAGES } from "../planting/order.rules.ts";
import { isOrderOfTree } from "../planting/orders.sql.ts";
import { kindColumn, modeColumn } from "../records/columns.sql.ts";
import { REFUND_OPERATIONS, REGISTER_OPERATIONS } from "../records/idempotencyKeys.rules.ts";
import { hasAttribution, importedRecord } from "../records/ownedRecords.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";
import { hasCustomerId, hasEmail, hasNameWith, hasOrder } from "../stores/customers.sql.ts";
import type { FoundBy, Lookup } from "./lookup.rules.ts";
import type { LookupOptions } from "./accountLookups.sql.ts";
import { inAccount, accountColumns, accountFields, knownKeysOf } from "./accountLookups.sql.ts";

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

/** A way to find records: what the text is then, and a query of the ids and times of the records. */
type Search = { readonly foundBy: FoundBy; readonly rows: FragmentSqlToken };

/** What the text may be in metadata, as JSON: a text, a shop's order number with or without `#`, a number. */
const metadataValues = (text: string): readonly string[] => {
  const number = text.replace(/^#/u, "");
  const texts = [...new Set([text, number, `#${number}`])].map((value) => JSON.stringify(value));
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/u.test(number) ? [...texts, number] : texts;
};

/** Searches of a table for what a text may mean. */
const createSearches = (table: RecordTable, { text, accountId, limit }: LookupOptions) => {
  const record = sql.identifier([table]);
  const column = (name: string) => sql.identifier([table, name]);
  const isDonation = table === "donation";
  const kind = isDonation ? sql.fragment`'donation'` : sql.fragment`kind.kind`;

  /** Searches an index that starts with the account, the mode and the kind, for each of them. */
  const inEach = (
    foundBy: FoundBy,
    condition: FragmentSqlToken,
    accounts: "all" | "stores" = "all",
  ): Search => ({
    foundBy,
    rows: sql.fragment`
      SELECT matching.id, matching.created_at
      FROM account
      CROSS JOIN ${values(MODES)} AS mode
      CROSS JOIN ${values(isDonation ? ["donation"] : KINDS)} AS kind
      CROSS JOIN LATERAL (
        SELECT id, created_at
        FROM ${record}
        WHERE ${column("account_id")} = account.id
          AND ${column("mode")} = mode.mode
          ${isDonation ? sql.fragment`` : sql.fragment`AND ${column("kind")} = kind.kind`}
          AND ${condition}
        ORDER BY created_at DESC, id DESC
        LIMIT ${limit}
      ) AS matching
      WHERE ${inAccount(accountId)} ${accounts === "all" ? sql.fragment`` : sql.fragment`AND account.type = 'store'`}
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

  const byKey = (
    foundBy: FoundBy,
    operations: Parameters<typeof knownKeysOf>[0],
    recordId: FragmentSqlToken = sql.fragment`known.record_id`,
  ): Search =>
    anywhere(
      foundBy,
      sql.fragment`id = ANY(ARRAY(
        SELECT ${recordId} FROM (${knownKeysOf(operations, { text, accountId })}) AS known
      ))`,
    );

  const importedAs = (id: string): Search => {
    const scope = { accountId: sql.fragment`account.id`, mode: sql.fragment`mode.mode`, kind };
    return inEach(
      "imported_id",
      sql.fragment`${column("id")} = ${importedRecord(table, scope, sql.fragment`${id}`)}`,
    );
  };

  /** A store's order is a field of its records; an organization has it in their metadata. */
  const byOrder = [
    inEach("order", hasOrder(table, text), "stores"),
    anywhere(
      "metadata",
      sql.fragment`metadata <> '{}' AND (${sql.join(
        metadataValues(text).map(
          (value) => sql.fragment`metadata_values(metadata) @> ${value}::jsonb`,
        ),
        sql.fragment` OR `,
      )})`,
    ),
  ];
  return { inEach, anywhere, byKey, importedAs, byOrder };
};

const idWith = (prefix: string, digit: "0" | "f"): string =>
  prefix + "########-####-####-####-############".replaceAll("#", digit).slice(prefix.length);

/** All searches for what a text may mean. */
const listSearches = (
  table: RecordTable,
  lookup: Lookup,
  options: LookupOptions,
): readonly Search[] => {
  const { text } = lookup;
  const { inEach, anywhere, byKey, importedAs, byOrder } = createSearches(table, options);
  const isDonation = table === "donation";
  const refundId = sql.fragment`(SELECT registration_id FROM refund WHERE refund.id = known.record_id)`;
  const searches: Search[] = [
    importedAs(text),
    inEach("attribution", hasAttribution(table, text)),
    ...byOrder,
    inEach("customer_email", hasEmail(table, text), "stores"),
    inEach("customer_id", hasCustomerId(table, lookup.customerId), "stores"),
    ...(isDonation
      ? [byKey("idempotency_key", ["donate"]), byKey("refund_idempotency_key", ["refund_donate"])]
      : [
          byKey("idempotency_key", Object.values(REGISTER_OPERATIONS)),
          byKey(
            "refund_idempotency_key",
            [...Object.values(REFUND_OPERATIONS), "operator_refund"],
            refundId,
          ),
        ]),
  ];
  if (lookup.id !== null) {
    const { id } = lookup;
    const refunded = sql.fragment`(SELECT registration_id FROM refund WHERE id = ${id})`;
    searches.push(
      anywhere(
        "id",
        isDonation
          ? sql.fragment`id = ${id}`
          : sql.fragment`id = ANY(ARRAY[${id}::uuid, ${refunded}])`,
      ),
    );
  }
  if (lookup.idPrefix !== null) {
    const [first, last] = [idWith(lookup.idPrefix, "0"), idWith(lookup.idPrefix, "f")];
    searches.push(anywhere("id", sql.fragment`id BETWEEN ${first}::uuid AND ${last}::uuid`));
  }
  if (lookup.refundedId !== null) {
    searches.push(importedAs(lookup.refundedId));
  }
  if (lookup.mayBeName) {
    searches.push(anywhere("customer_name", hasNameWith(table, text)));
  }
  return searches;
};

/** A query of the records that searches find, the newest first. */
const foundRecords = (
  table: RecordTable,
  searches: readonly Search[],
  { limit }: LookupOptions,
  { columns, join }: { readonly columns: FragmentSqlToken; readonly join: FragmentSqlToken },
): FragmentSqlToken => {
  const record = sql.identifier([table]);
  const hits = searches.map(
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

const REGISTRATION = {
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
};

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

const DONATION = {
  columns: sql.fragment`
    ${columnsOf("donation", donationColumns)},
    donation_refund.created_at AS "refundedAt",
    donation_refund.reason AS "refundReason",
    donation_refund.idempotency_key AS "refundIdempotencyKey",
    donation_refund.metadata AS "refundMetadata"
  `,
  join: sql.fragment`LEFT JOIN donation_refund ON donation_refund.donation_id = donation.id`,
};

/** A query of all records that a text may mean. A test asks PostgreSQL for its plan. */
export const lookupQuery = (
  table: RecordTable,
  lookup: Lookup,
  options: LookupOptions,
): FragmentSqlToken =>
  foundRecords(
    table,
    listSearches(table, lookup, options),
    options,
    table === "donation" ? DONATION : REGISTRATION,
  );

const listRegistrations = (
  db: CommonQueryMethods,
  searches: readonly Search[],
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  db.any(
    sql.type(registrationRow)`${foundRecords("registration", searches, options, REGISTRATION)}`,
  );

const ofMeterEvent = (meterEventId: bigint, options: LookupOptions): Search =>
  createSearches("registration", options).anywhere(
    "meter_event",
    sql.fragment`id IN (
      SELECT counted.id
      FROM meter_event
      CROSS JOIN LATERAL (${registrationsOfEvent}) AS counted
      WHERE meter_event.id = ${meterEventId}
    )`,
  );

/** Lists the registrations that a text may mean, and those whose usage is in a meter event. */
export const listFoundRegistrations = (
  db: CommonQueryMethods,
  lookup: Lookup,
  meterEventId: bigint | null,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> => {
  const searches = listSearches("registration", lookup, options);
  const further = meterEventId === null ? [] : [ofMeterEvent(meterEventId, options)];
  return listRegistrations(db, [...searches, ...further], options);
};

/** Lists the registrations whose usage is in a meter event. */
export const listRegistrationsOfMeterEvent = (
  db: CommonQueryMethods,
  meterEventId: bigint,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  listRegistrations(db, [ofMeterEvent(meterEventId, options)], options);

/** Lists the registrations of a shop's order, or with a value in their metadata. */
export const listRegistrationsOfOrder = (
  db: CommonQueryMethods,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  listRegistrations(db, createSearches("registration", options).byOrder, options);

export const listFoundDonations = (
  db: CommonQueryMethods,
  lookup: Lookup,
  options: LookupOptions,
): Promise<readonly FoundDonation[]> =>
  db.any(sql.type(donationRow)`${lookupQuery("donation", lookup, options)}`);
