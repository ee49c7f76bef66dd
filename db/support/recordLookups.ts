import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS, MODES } from "../../domain/accounts/accounts.ts";
import type { RecordField } from "../../domain/support/lookup.ts";
import { kindColumn, modeColumn, orderStageColumn, safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";
import { escapeLike } from "../stores/customerConditions.ts";
import type { LookupOptions } from "./lookupOptions.ts";
import { inAccount, ownerColumns, ownerRow, values } from "./lookupOptions.ts";

/*
 * Look-ups for operators, across all accounts and modes. A field whose index starts with the account is looked up in each
 * account: that costs an index search per account and mode, while a separate index would slow down each registration.
 */

const customerRow = {
  attribution: z.string(),
  idempotencyKey: z.string().nullable(),
  customerName: z.string().nullable(),
  customerEmail: z.string().nullable(),
  customerId: z.string().nullable(),
  orderId: z.string().nullable(),
};

const customerColumns = (table: "registration" | "donation"): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return sql.fragment`
    ${column("attribution")},
    ${column("idempotency_key")} AS "idempotencyKey",
    ${column("customer_name")} AS "customerName",
    ${column("customer_email")} AS "customerEmail",
    ${column("customer_id")} AS "customerId",
    ${column("order_id")} AS "orderId"
  `;
};

const registrationRow = z.strictObject({
  ...ownerRow,
  ...customerRow,
  id: z.uuid(),
  importedId: z.string().nullable(),
  mode: modeColumn,
  kind: kindColumn,
  count: safeInteger,
  refundedCount: safeInteger,
  createdAt: z.date(),
  isPrepaid: z.boolean(),
  orderStage: orderStageColumn.nullable(),
  plantingOrder: z.string().nullable(),
});
export type FoundRegistration = Readonly<z.output<typeof registrationRow>>;

const registrationColumns = sql.fragment`
  ${ownerColumns},
  ${customerColumns("registration")},
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
  ...ownerRow,
  ...customerRow,
  id: z.uuid(),
  importedId: z.string().nullable(),
  mode: modeColumn,
  amountCents: safeInteger,
  charityName: z.string(),
  refundedAt: z.date().nullable(),
  createdAt: z.date(),
});
export type FoundDonation = Readonly<z.output<typeof donationRow>>;

const donationColumns = sql.fragment`
  ${ownerColumns},
  ${customerColumns("donation")},
  donation.id,
  donation.imported_id AS "importedId",
  donation.mode,
  donation.amount_cents AS "amountCents",
  donation.charity_name AS "charityName",
  donation.refunded_at AS "refundedAt",
  donation.created_at AS "createdAt"
`;

/** The condition of a field, in the form that the index over accounts, modes and kinds serves. */
const fieldCondition = (
  table: "registration" | "donation",
  field: RecordField,
  text: string,
): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return {
    imported_id: sql.fragment`${column("imported_id")} = ${text}`,
    idempotency_key: sql.fragment`${column("idempotency_key")} = ${text}`,
    attribution: sql.fragment`${column("attribution")} = ${text} AND ${column("attribution")} <> ''`,
    order: sql.fragment`ltrim(${column("order_id")}, '#') = ltrim(${text}, '#')`,
    customer_email: sql.fragment`lower(${column("customer_email")}) = lower(${text})`,
    customer_id: sql.fragment`${column("customer_id")} = ${text}`,
  }[field];
};

const STORE_FIELDS: ReadonlySet<RecordField> = new Set(["order", "customer_email", "customer_id"]);

/** The condition of the accounts that may have a field: only stores have orders and customers. */
const accountCondition = (field: RecordField, accountId: string | null): FragmentSqlToken =>
  STORE_FIELDS.has(field)
    ? sql.fragment`${inAccount(accountId)} AND account.type = 'store'`
    : inAccount(accountId);

/** The query of `listRegistrationsByField`, so that a test can ask PostgreSQL for its plan. */
export const registrationsByField = (
  field: RecordField,
  { text, accountId, limit }: LookupOptions,
): FragmentSqlToken => sql.fragment`
  SELECT ${registrationColumns}
  FROM account
  CROSS JOIN ${values(MODES)} AS mode
  CROSS JOIN ${values(KINDS)} AS kind
  CROSS JOIN LATERAL (
    SELECT *
    FROM registration
    WHERE registration.account_id = account.id
      AND registration.mode = mode.mode
      AND registration.kind = kind.kind
      AND ${fieldCondition("registration", field, text)}
    ORDER BY registration.created_at DESC, registration.id DESC
    LIMIT ${limit}
  ) AS registration
  LEFT JOIN planting_order ON planting_order.id = registration.planting_order_id
  WHERE ${accountCondition(field, accountId)}
  ORDER BY registration.created_at DESC, registration.id DESC
  LIMIT ${limit}
`;

export const listRegistrationsByField = (
  db: CommonQueryMethods,
  field: RecordField,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  db.any(sql.type(registrationRow)`${registrationsByField(field, options)}`);

/** The query of `listDonationsByField`, so that a test can ask PostgreSQL for its plan. */
export const donationsByField = (
  field: RecordField,
  { text, accountId, limit }: LookupOptions,
): FragmentSqlToken => sql.fragment`
  SELECT ${donationColumns}
  FROM account
  CROSS JOIN ${values(MODES)} AS mode
  CROSS JOIN LATERAL (
    SELECT *
    FROM donation
    WHERE donation.account_id = account.id
      AND donation.mode = mode.mode
      AND ${fieldCondition("donation", field, text)}
    ORDER BY donation.created_at DESC, donation.id DESC
    LIMIT ${limit}
  ) AS donation
  WHERE ${accountCondition(field, accountId)}
  ORDER BY donation.created_at DESC, donation.id DESC
  LIMIT ${limit}
`;

export const listDonationsByField = (
  db: CommonQueryMethods,
  field: RecordField,
  options: LookupOptions,
): Promise<readonly FoundDonation[]> =>
  db.any(sql.type(donationRow)`${donationsByField(field, options)}`);

const selectedRegistrations = (
  source: FragmentSqlToken,
  { accountId, limit }: LookupOptions,
): FragmentSqlToken => sql.fragment`
  SELECT ${registrationColumns}
  FROM ${source}
  JOIN account ON account.id = registration.account_id
  LEFT JOIN planting_order ON planting_order.id = registration.planting_order_id
  WHERE ${inAccount(accountId)}
  ORDER BY registration.created_at DESC, registration.id DESC
  LIMIT ${limit}
`;

const selectedDonations = (
  source: FragmentSqlToken,
  { accountId, limit }: LookupOptions,
): FragmentSqlToken => sql.fragment`
  SELECT ${donationColumns}
  FROM ${source}
  JOIN account ON account.id = donation.account_id
  WHERE ${inAccount(accountId)}
  ORDER BY donation.created_at DESC, donation.id DESC
  LIMIT ${limit}
`;

/** The query of `listRegistrationsByName`. The index finds a part of a name of at least three characters. */
export const registrationsByName = (options: LookupOptions): FragmentSqlToken =>
  selectedRegistrations(
    sql.fragment`(
      SELECT * FROM registration WHERE customer_name ILIKE ${`%${escapeLike(options.text)}%`}
    ) AS registration`,
    options,
  );

export const listRegistrationsByName = (
  db: CommonQueryMethods,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  db.any(sql.type(registrationRow)`${registrationsByName(options)}`);

/** The query of `listDonationsByName`. */
export const donationsByName = (options: LookupOptions): FragmentSqlToken =>
  selectedDonations(
    sql.fragment`(
      SELECT * FROM donation WHERE customer_name ILIKE ${`%${escapeLike(options.text)}%`}
    ) AS donation`,
    options,
  );

export const listDonationsByName = (
  db: CommonQueryMethods,
  options: LookupOptions,
): Promise<readonly FoundDonation[]> => db.any(sql.type(donationRow)`${donationsByName(options)}`);

/** Finds a registration by its own id or by that of one of its refunds. */
export const listRegistrationsById = (
  db: CommonQueryMethods,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  db.any(
    sql.type(registrationRow)`${selectedRegistrations(
      sql.fragment`(
      SELECT *
      FROM registration
      WHERE id = ANY(ARRAY[${options.text}::uuid, (SELECT registration_id FROM refund WHERE id = ${options.text})])
    ) AS registration`,
      options,
    )}`,
  );

export const listDonationsById = (
  db: CommonQueryMethods,
  options: LookupOptions,
): Promise<readonly FoundDonation[]> =>
  db.any(
    sql.type(donationRow)`${selectedDonations(
      sql.fragment`(SELECT * FROM donation WHERE id = ${options.text}) AS donation`,
      options,
    )}`,
  );

/** The organizations whose keys are searched: stores do not have these keys. */
const owners = (accountId: string | null): FragmentSqlToken => sql.fragment`(
  SELECT account.id
  FROM account
  WHERE account.type = 'organization' AND ${inAccount(accountId)}
)`;

/** The query of `listRegistrationsByRefundKey`. */
export const registrationsByRefundKey = (options: LookupOptions): FragmentSqlToken =>
  selectedRegistrations(
    sql.fragment`(
      SELECT registration.*
      FROM ${owners(options.accountId)} AS owner
      CROSS JOIN ${values(MODES)} AS mode
      CROSS JOIN ${values(KINDS)} AS kind
      CROSS JOIN LATERAL (
        SELECT refund_id
        FROM refund_key
        WHERE account_id = owner.id
          AND refund_key.mode = mode.mode
          AND refund_key.kind = kind.kind
          AND idempotency_key = ${options.text}
        LIMIT 1
      ) AS used
      JOIN refund ON refund.id = used.refund_id
      JOIN registration ON registration.id = refund.registration_id
    ) AS registration`,
    options,
  );

export const listRegistrationsByRefundKey = (
  db: CommonQueryMethods,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  db.any(sql.type(registrationRow)`${registrationsByRefundKey(options)}`);

export const listDonationsByRefundKey = (
  db: CommonQueryMethods,
  options: LookupOptions,
): Promise<readonly FoundDonation[]> =>
  db.any(
    sql.type(donationRow)`${selectedDonations(
      sql.fragment`(
      SELECT donation.*
      FROM ${owners(options.accountId)} AS owner
      CROSS JOIN ${values(MODES)} AS mode
      CROSS JOIN LATERAL (
        SELECT donation_id
        FROM donation_refund_key
        WHERE account_id = owner.id
          AND donation_refund_key.mode = mode.mode
          AND idempotency_key = ${options.text}
        LIMIT 1
      ) AS used
      JOIN donation ON donation.id = used.donation_id
    ) AS donation`,
      options,
    )}`,
  );

/** Lists the registrations whose usage is in a meter event. */
export const listRegistrationsOfMeterEvent = (
  db: CommonQueryMethods,
  meterEventId: bigint,
  options: LookupOptions,
): Promise<readonly FoundRegistration[]> =>
  db.any(
    sql.type(registrationRow)`${selectedRegistrations(
      sql.fragment`(
      SELECT *
      FROM registration
      WHERE id IN (SELECT registration_id FROM usage_fact WHERE meter_event_id = ${meterEventId})
    ) AS registration`,
      options,
    )}`,
  );
