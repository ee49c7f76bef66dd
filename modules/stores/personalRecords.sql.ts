import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { kindColumn, modeColumn } from "../records/columns.sql.ts";
import { sql } from "../../db/sql.ts";
import { isOfCustomer } from "./customers.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import type { KnownCustomer } from "./customers.rules.ts";
import { REFUNDS } from "./personalData.sql.ts";
import { donationColumns, donationRow } from "./storeDonations.sql.ts";
import { recordColumns, recordRow } from "./storeRegistrations.sql.ts";

const personalFields = {
  mode: modeColumn,
  /** Oldest first. */
  refundReasons: z.array(z.string()),
};

/** The columns of `personalFields`, and the end of a query of a customer's newest records. */
const newestOfCustomer = (
  table: RecordTable,
  accountId: string,
  customer: KnownCustomer,
  limit: number,
): FragmentSqlToken => {
  const { table: refunds, record } = REFUNDS[table];
  return sql.fragment`
    mode,
    ARRAY(
      SELECT reason
      FROM ${sql.identifier([refunds])} AS refund
      WHERE ${sql.identifier(["refund", record])} = ${sql.identifier([table, "id"])} AND reason IS NOT NULL
      ORDER BY refund.created_at
    ) AS "refundReasons"
    FROM ${sql.identifier([table])}
    WHERE ${isOfCustomer(table, accountId, customer)}
    ORDER BY created_at DESC, id DESC
    LIMIT ${limit}
  `;
};

const personalRegistration = recordRow.extend({ ...personalFields, kind: kindColumn });
export type PersonalRegistration = Readonly<z.output<typeof personalRegistration>>;

const personalDonation = donationRow.extend({
  ...personalFields,
  /** When it was refunded here; null if another system refunded it. */
  refundedAt: z.date().nullable(),
});
export type PersonalDonation = Readonly<z.output<typeof personalDonation>>;

/** Lists a customer's registrations, newest first. */
export const listPersonalRegistrations = (
  db: CommonQueryMethods,
  accountId: string,
  customer: KnownCustomer,
  limit: number,
): Promise<readonly PersonalRegistration[]> =>
  db.any(sql.type(personalRegistration)`
    SELECT ${recordColumns}, kind, ${newestOfCustomer("registration", accountId, customer, limit)}
  `);

/** Lists a customer's donations, newest first. */
export const listPersonalDonations = (
  db: CommonQueryMethods,
  accountId: string,
  customer: KnownCustomer,
  limit: number,
): Promise<readonly PersonalDonation[]> =>
  db.any(sql.type(personalDonation)`
    SELECT
      ${donationColumns},
      (SELECT created_at FROM donation_refund WHERE donation_refund.donation_id = donation.id) AS "refundedAt",
      ${newestOfCustomer("donation", accountId, customer, limit)}
  `);
