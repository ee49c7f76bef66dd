import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { kindColumn, modeColumn } from "../records/columns.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { customerColumns, customerRow, isSelected } from "./customers.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import type { RecordSelection } from "./customers.sql.ts";

const personalFields = {
  id: z.uuid(),
  importedId: z.string().nullable(),
  mode: modeColumn,
  ...customerRow,
  createdAt: z.date(),
};

const personalColumns = (table: RecordTable): FragmentSqlToken => sql.fragment`
  id,
  imported_id AS "importedId",
  mode,
  ${customerColumns(table)},
  created_at AS "createdAt"
`;

const newestSelected = (
  table: RecordTable,
  accountId: string,
  selection: RecordSelection,
  limit: number,
): FragmentSqlToken => sql.fragment`
  WHERE ${isSelected(table, accountId, selection)}
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
export type RegistrationWithReasons = PersonalRegistration & {
  /** Of its refunds. */
  readonly refundReasons: readonly string[];
};

const donationRow = z.strictObject({
  ...personalFields,
  amountCents: safeInteger,
  charityName: z.string(),
  refunded: z.boolean(),
  /** When it was refunded here; null if another system refunded it. */
  refundedAt: z.date().nullable(),
  /** One at most. */
  refundReasons: z.array(z.string()),
});
export type PersonalDonation = Readonly<z.output<typeof donationRow>>;

/** Lists selected registrations, newest first. */
export const listPersonalRegistrations = (
  db: CommonQueryMethods,
  accountId: string,
  selection: RecordSelection,
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
    ${newestSelected("registration", accountId, selection, limit)}
  `);

const reasonRow = z.strictObject({ registrationId: z.uuid(), reason: z.string() });

/** Lists the reasons of refunds in the order of their registrations, the newest of each first. */
export const listRefundReasons = (
  db: CommonQueryMethods,
  registrationIds: readonly string[],
  limit: number,
): Promise<readonly z.output<typeof reasonRow>[]> =>
  db.any(sql.type(reasonRow)`
    SELECT given.id AS "registrationId", refund.reason
    FROM ${sql.unnest(
      registrationIds.map((id, place) => [id, place]),
      ["uuid", "int4"],
    )} AS given (id, place)
    CROSS JOIN LATERAL (
      SELECT reason, created_at FROM refund WHERE registration_id = given.id OFFSET 0
    ) AS refund
    WHERE refund.reason IS NOT NULL
    ORDER BY given.place, refund.created_at DESC
    LIMIT ${limit}
  `);

/** Lists selected donations with the reasons of their refunds, newest first. */
export const listPersonalDonations = (
  db: CommonQueryMethods,
  accountId: string,
  selection: RecordSelection,
  limit: number,
): Promise<readonly PersonalDonation[]> =>
  db.any(sql.type(donationRow)`
    SELECT
      ${personalColumns("donation")},
      amount_cents AS "amountCents",
      charity_name AS "charityName",
      refunded,
      (SELECT created_at FROM donation_refund WHERE donation_refund.donation_id = donation.id) AS "refundedAt",
      ARRAY(
        SELECT reason
        FROM donation_refund
        WHERE donation_refund.donation_id = donation.id AND reason IS NOT NULL
      ) AS "refundReasons"
    FROM donation
    ${newestSelected("donation", accountId, selection, limit)}
  `);
