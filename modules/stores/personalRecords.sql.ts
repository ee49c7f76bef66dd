import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { kindColumn, modeColumn } from "../records/columns.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { customerColumns, customerRow, isOfCustomer } from "./customers.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import type { KnownCustomer } from "./customers.rules.ts";
import { REFUNDS } from "./personalData.sql.ts";

const personalFields = {
  id: z.uuid(),
  importedId: z.string().nullable(),
  mode: modeColumn,
  ...customerRow,
  createdAt: z.date(),
  /** Oldest first. */
  refundReasons: z.array(z.string()),
};

const personalColumns = (table: RecordTable): FragmentSqlToken => {
  const { table: refunds, record } = REFUNDS[table];
  return sql.fragment`
  id,
  imported_id AS "importedId",
  mode,
  ${customerColumns(table)},
  created_at AS "createdAt",
  ARRAY(
    SELECT reason
    FROM ${sql.identifier([refunds])} AS refund
    WHERE ${sql.identifier(["refund", record])} = ${sql.identifier([table, "id"])} AND reason IS NOT NULL
    ORDER BY refund.created_at
  ) AS "refundReasons"
`;
};

const newestOfCustomer = (
  table: RecordTable,
  accountId: string,
  customer: KnownCustomer,
  limit: number,
): FragmentSqlToken => sql.fragment`
  WHERE ${isOfCustomer(table, accountId, customer)}
  ORDER BY created_at DESC, id DESC
  LIMIT ${limit}
`;

const registrationRow = z.strictObject({
  ...personalFields,
  kind: kindColumn,
  count: safeInteger,
  refundedCount: safeInteger,
  notes: z.string().nullable(),
});
export type PersonalRegistration = Readonly<z.output<typeof registrationRow>>;

const donationRow = z.strictObject({
  ...personalFields,
  amountCents: safeInteger,
  charityName: z.string(),
  refunded: z.boolean(),
  /** When it was refunded here; null if another system refunded it. */
  refundedAt: z.date().nullable(),
});
export type PersonalDonation = Readonly<z.output<typeof donationRow>>;

/** Lists a customer's registrations, newest first. */
export const listPersonalRegistrations = (
  db: CommonQueryMethods,
  accountId: string,
  customer: KnownCustomer,
  limit: number,
): Promise<readonly PersonalRegistration[]> =>
  db.any(sql.type(registrationRow)`
    SELECT
      ${personalColumns("registration")},
      kind,
      count,
      refunded_count AS "refundedCount",
      notes
    FROM registration
    ${newestOfCustomer("registration", accountId, customer, limit)}
  `);

/** Lists a customer's donations, newest first. */
export const listPersonalDonations = (
  db: CommonQueryMethods,
  accountId: string,
  customer: KnownCustomer,
  limit: number,
): Promise<readonly PersonalDonation[]> =>
  db.any(sql.type(donationRow)`
    SELECT
      ${personalColumns("donation")},
      amount_cents AS "amountCents",
      charity_name AS "charityName",
      refunded,
      (SELECT created_at FROM donation_refund WHERE donation_refund.donation_id = donation.id) AS "refundedAt"
    FROM donation
    ${newestOfCustomer("donation", accountId, customer, limit)}
  `);
