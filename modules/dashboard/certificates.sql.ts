import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { factsOfOrder, isOrderOfTree } from "../planting/orders.sql.ts";
import { z } from "zod";
import { acceptedFacts } from "../planting/fact.rules.ts";
import { kindColumn, modeColumn } from "../records/columns.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { isFiltered } from "../stores/customers.sql.ts";
import { MAXIMUM_CERTIFIED_RECORDS } from "./certificate.rules.ts";
import { columnsOf, idRow, safeInteger, sql, timestamp } from "../../db/sql.ts";
import { withCell } from "../records/cells.sql.ts";

const tokenRow = z.strictObject({ token: z.string() });
const foundRow = tokenRow.extend({ recordIds: z.array(z.uuid()) });

/** Returns the oldest unrevoked certificate of a record or, by any of its records, of an order; null if there is none. */
export const findCertificate = (
  db: CommonQueryMethods,
  recordIds: readonly string[],
  isOfOrder: boolean,
) =>
  db.maybeOne(sql.prepared("find_certificate", foundRow)`
    SELECT token, record_id || further_record_ids AS "recordIds"
    FROM certificate
    WHERE record_id = ANY(${sql.array(recordIds, "uuid")}) AND is_of_order = ${isOfOrder} AND revoked_at IS NULL
    ORDER BY created_at, token
    LIMIT 1
  `);

/**
 * Stores the certificate of a record or an order, unless there is one of the first record, which gets the other records.
 * @returns its token
 */
export const storeCertificate = (
  db: CommonQueryMethods,
  {
    token,
    accountId,
    recordIds: [first = "", ...further],
    isOfOrder,
    createdAt,
  }: {
    readonly token: string;
    readonly accountId: string;
    /** The record, or all of the order. */
    readonly recordIds: readonly string[];
    readonly isOfOrder: boolean;
    readonly createdAt: Date;
  },
) =>
  db.oneFirst(sql.type(tokenRow)`
    INSERT INTO certificate (token, account_id, record_id, further_record_ids, is_of_order, created_at)
    VALUES (${withCell(token)}, ${accountId}, ${first}, ${sql.array(further, "uuid")}, ${isOfOrder}, ${timestamp(createdAt)})
    ON CONFLICT (record_id, is_of_order) WHERE revoked_at IS NULL DO UPDATE SET further_record_ids = ARRAY(
      SELECT unnest(certificate.further_record_ids) UNION SELECT unnest(excluded.further_record_ids)
    )
    RETURNING token
  `);

const firstRecords = sql.fragment`ORDER BY created_at, id LIMIT ${MAXIMUM_CERTIFIED_RECORDS + 1}`;

/** Lists the ids of a store's records of an order, oldest first; at most one more than a certificate may have. */
export const listOrderRecords = (db: CommonQueryMethods, owner: AccountMode, orderId: string) =>
  db.anyFirst(sql.prepared("list_order_records", idRow)`
    SELECT id
    FROM (
      ${sql.join(
        KINDS.map(
          (kind) => sql.fragment`(
            SELECT id, created_at
            FROM registration
            WHERE ${isFiltered("registration", { ...owner, kind }, { orderId })}
            ${firstRecords}
          )`,
        ),
        sql.fragment` UNION ALL `,
      )}
      UNION ALL
      (SELECT id, created_at FROM donation WHERE ${isFiltered("donation", owner, { orderId })} ${firstRecords})
    ) AS record
    ${firstRecords}
  `);

const revokedRow = z.strictObject({
  accountId: z.uuid(),
  recordId: z.uuid(),
  isOfOrder: z.boolean(),
});

/** @returns what it was of; null if there is none with the token, or it was revoked before */
export const revokeCertificate = (
  transaction: DatabaseTransactionConnection,
  token: string,
  revokedAt: Date,
) =>
  transaction.maybeOne(sql.type(revokedRow)`
    UPDATE certificate
    SET revoked_at = ${timestamp(revokedAt)}
    WHERE token = ${token} AND revoked_at IS NULL
    RETURNING account_id AS "accountId", record_id AS "recordId", is_of_order AS "isOfOrder"
  `);

const certificateRow = z.strictObject({
  token: z.string(),
  recordIds: z.array(z.uuid()),
  createdAt: z.date(),
  /** The organization whose brand the page has: of a store, the one that owns it. */
  ownerId: z.uuid(),
  ownerName: z.string(),
  /** The slug of the owner's public page; null if it has none. */
  slug: z.string().nullable(),
});
export type Certificate = Readonly<z.output<typeof certificateRow>>;

const registrationRow = z.strictObject({
  id: z.uuid(),
  kind: kindColumn,
  mode: modeColumn,
  count: safeInteger,
  refundedCount: safeInteger,
  createdAt: z.date(),
  partner: z.string().nullable(),
  partnerName: z.string().nullable(),
  isOrderedElsewhere: z.boolean(),
  facts: acceptedFacts,
});

const donationRow = z.strictObject({
  id: z.uuid(),
  kind: z.literal("donation"),
  mode: modeColumn,
  amountCents: safeInteger,
  charityName: z.string(),
  isCharityConfirmed: z.boolean(),
  ein: z.string().nullable(),
  createdAt: z.date(),
  isRefunded: z.boolean(),
  /** When it was refunded here; null if an earlier system refunded it: its lists have no date. */
  refundedAt: z.date().nullable(),
});

/** A registration with the facts of its planting order. It has nothing about customers. */
export type CertifiedRegistration = Readonly<z.output<typeof registrationRow>>;
export type CertifiedDonation = Readonly<z.output<typeof donationRow>>;
export type CertifiedItem = CertifiedRegistration | CertifiedDonation;

const listRegistrations = (db: CommonQueryMethods, ids: readonly string[]) =>
  db.any(sql.type(registrationRow)`
    SELECT ${columnsOf("registration", registrationRow, {
      partner: sql.fragment`planting_order.partner`,
      partnerName: sql.fragment`planting_order.partner_name`,
      isOrderedElsewhere: sql.fragment`registration.planting_order_id IS NULL`,
      facts: factsOfOrder,
    })}
    FROM registration
    LEFT JOIN planting_order ON ${isOrderOfTree}
    WHERE registration.id = ANY(${sql.array(ids, "uuid")})
  `);

const listDonations = (db: CommonQueryMethods, ids: readonly string[]) =>
  db.any(sql.type(donationRow)`
    SELECT ${columnsOf("donation", donationRow, {
      kind: sql.fragment`'donation'`,
      charityName: sql.fragment`coalesce(donation.confirmed_name, donation.charity_name)`,
      isCharityConfirmed: sql.fragment`donation.confirmed_name IS NOT NULL`,
      isRefunded: sql.fragment`donation.refunded`,
      refundedAt: sql.fragment`donation_refund.created_at`,
    })}
    FROM donation
    LEFT JOIN donation_refund ON donation_refund.donation_id = donation.id
    WHERE donation.id = ANY(${sql.array(ids, "uuid")})
  `);

/** Returns certificates by their tokens. Unknown and revoked ones are absent. */
export const findCertificates = async (db: CommonQueryMethods, tokens: readonly string[]) => {
  const rows = await db.any(sql.type(certificateRow)`
    SELECT ${columnsOf("certificate", certificateRow, {
      recordIds: sql.fragment`certificate.record_id || certificate.further_record_ids`,
      ownerId: sql.fragment`owner.id`,
      ownerName: sql.fragment`owner.name`,
      slug: sql.fragment`dashboard.slug`,
    })}
    FROM certificate
    LEFT JOIN store ON store.account_id = certificate.account_id
    JOIN account AS owner ON owner.id = coalesce(store.organization_id, certificate.account_id)
    LEFT JOIN dashboard ON dashboard.account_id = owner.id AND NOT dashboard.is_alias
    WHERE certificate.token = ANY(${sql.array(tokens, "text")}) AND certificate.revoked_at IS NULL
  `);
  return new Map(rows.map((row) => [row.token, row]));
};

/** Returns what a certificate certifies, the oldest record first; null if nothing of it exists any more. */
export const readCertified = async (
  db: CommonQueryMethods,
  { recordIds, ...certificate }: Certificate,
) => {
  const items: readonly CertifiedItem[] = [
    ...(await listRegistrations(db, recordIds)),
    ...(await listDonations(db, recordIds)),
  ].toSorted(
    (one, other) =>
      one.createdAt.getTime() - other.createdAt.getTime() || one.id.localeCompare(other.id),
  );
  return items.length === 0 ? null : { ...certificate, items };
};

export type Certified = NonNullable<Awaited<ReturnType<typeof readCertified>>>;
