import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { isOrderOfTree } from "../planting/orders.sql.ts";
import { z } from "zod";
import { ORDER_STAGES } from "../planting/order.rules.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { CERTIFIED_KINDS, MAXIMUM_CERTIFIED_RECORDS } from "./certificate.rules.ts";
import type { CertifiedKind } from "./certificate.rules.ts";
import { kindColumn, modeColumn } from "../records/columns.sql.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { isOwn } from "../records/ownedRecords.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";

const certifiedKindColumn = z.enum(CERTIFIED_KINDS);

/** What a certificate is of. */
export type CertifiedRecord = { readonly id: string; readonly kind: CertifiedKind };

const foundRow = z.strictObject({ token: z.string(), recordIds: z.array(z.uuid()) });

/** Returns the oldest unrevoked certificate of a record or, by any of its records, of an order; null if there is none. */
export const findCertificate = (
  db: CommonQueryMethods,
  recordIds: readonly string[],
  isOfOrder: boolean,
): Promise<Readonly<z.output<typeof foundRow>> | null> =>
  db.maybeOne(sql.prepared("find_certificate", foundRow)`
    SELECT
      certificate.token,
      certificate.record_id || ARRAY(
        SELECT certificate_item.record_id FROM certificate_item WHERE certificate_item.token = certificate.token
      ) AS "recordIds"
    FROM certificate
    WHERE certificate.record_id = ANY(${sql.array(recordIds, "uuid")})
      AND certificate.is_of_order = ${isOfOrder}
      AND certificate.revoked_at IS NULL
    ORDER BY certificate.created_at, certificate.token
    LIMIT 1
  `);

const tokenRow = z.strictObject({ token: z.string() });

/** Returns the token of a record's or an order's certificate, which is an existing one unless it was revoked. */
export const getOrInsertCertificate = (
  db: CommonQueryMethods,
  certificate: {
    readonly token: string;
    readonly accountId: string;
    /** The record, or the first of the order. */
    readonly record: CertifiedRecord;
    readonly isOfOrder: boolean;
    readonly createdAt: Date;
  },
): Promise<string> =>
  db.oneFirst(sql.type(tokenRow)`
    INSERT INTO certificate (token, account_id, record_id, kind, is_of_order, created_at)
    VALUES (
      ${certificate.token}, ${certificate.accountId}, ${certificate.record.id}, ${certificate.record.kind},
      ${certificate.isOfOrder}, ${timestamp(certificate.createdAt)}
    )
    ON CONFLICT (record_id, is_of_order) WHERE revoked_at IS NULL DO UPDATE SET record_id = excluded.record_id
    RETURNING token
  `);

/** Adds the further records of an order to its certificate. Those that it has already stay. */
export const insertCertificateItems = async (
  db: CommonQueryMethods,
  token: string,
  records: readonly CertifiedRecord[],
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO certificate_item (token, record_id, kind)
    SELECT ${token}, record.id, record.kind
    FROM ${sql.unnest(
      records.map(({ id, kind }) => [id, kind]),
      ["uuid", "text"],
    )} AS record (id, kind)
    ON CONFLICT (token, record_id) DO NOTHING
  `);
};

const orderRecordRow = z.strictObject({ id: z.uuid(), kind: certifiedKindColumn });

/** The condition that a record is of an order of its owner. The planner sees no value, so it keeps its plan. */
const isOfOrder = (table: RecordTable, owner: AccountMode, orderId: string): FragmentSqlToken =>
  sql.fragment`
    ${isOwn(table, owner)} AND order_digest(order_id) = (SELECT order_digest(${orderId})) AND order_id IS NOT NULL
  `;

const FIRST_RECORDS = sql.fragment`
  ORDER BY created_at, id
  LIMIT ${sql.literalValue(String(MAXIMUM_CERTIFIED_RECORDS + 1))}
`;

/** The first registrations of an order. With a kind, their order is that of an index. */
const firstOfKind = (kind: Kind, owner: AccountMode, orderId: string): FragmentSqlToken =>
  sql.fragment`
    SELECT id, kind, created_at
    FROM registration
    WHERE ${isOfOrder("registration", owner, orderId)} AND kind = ${sql.literalValue(kind)}
    ${FIRST_RECORDS}
  `;

/**
 * Lists the first records of a store's order, with or without the leading `#`. However many the order has, it reads a few.
 * @returns at most one more than a certificate may have
 */
export const listOrderRecords = (
  db: CommonQueryMethods,
  owner: AccountMode,
  orderId: string,
): Promise<readonly CertifiedRecord[]> =>
  db.any(sql.prepared("list_order_records", orderRecordRow)`
    WITH found AS (
      ${sql.join(
        KINDS.map((kind) => sql.fragment`(${firstOfKind(kind, owner, orderId)})`),
        sql.fragment` UNION ALL `,
      )}
      UNION ALL
      (
        SELECT id, 'donation', created_at
        FROM donation
        WHERE ${isOfOrder("donation", owner, orderId)}
        ${FIRST_RECORDS}
      )
    )
    SELECT id, kind
    FROM found
    ${FIRST_RECORDS}
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
): Promise<Readonly<z.output<typeof revokedRow>> | null> =>
  transaction.maybeOne(sql.type(revokedRow)`
    UPDATE certificate
    SET revoked_at = ${timestamp(revokedAt)}
    WHERE token = ${token} AND revoked_at IS NULL
    RETURNING account_id AS "accountId", record_id AS "recordId", is_of_order AS "isOfOrder"
  `);

const certificateRow = z.strictObject({
  token: z.string(),
  isOfOrder: z.boolean(),
  /** The organization whose brand the page has: of a store, the one that owns it. */
  ownerId: z.uuid(),
  ownerName: z.string(),
  /** The slug of the owner's public page; null if it has none. */
  slug: z.string().nullable(),
});

const registrationRow = z.strictObject({
  token: z.string(),
  kind: kindColumn,
  mode: modeColumn,
  count: safeInteger,
  refundedCount: safeInteger,
  createdAt: z.date(),
  isOrderedElsewhere: z.boolean(),
  stage: z.enum(ORDER_STAGES).nullable(),
  plantedAt: z.date().nullable(),
  verifiedAt: z.date().nullable(),
  partner: z.string().nullable(),
  partnerName: z.string().nullable(),
  siteName: z.string().nullable(),
  country: z.string().nullable(),
});

const donationRow = z.strictObject({
  token: z.string(),
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

/** A registration with what is known of its planting. It has nothing about customers. */
export type CertifiedRegistration = Readonly<z.output<typeof registrationRow>>;
export type CertifiedDonation = Readonly<z.output<typeof donationRow>>;
export type CertifiedItem = CertifiedRegistration | CertifiedDonation;

export type Certified = Readonly<z.output<typeof certificateRow>> & {
  /** At least one, oldest first. */
  readonly items: readonly CertifiedItem[];
};

/** Returns what certificates certify, by their tokens. Unknown and revoked ones are absent. */
export const findCertified = async (
  db: CommonQueryMethods,
  tokens: readonly string[],
): Promise<ReadonlyMap<string, Certified>> => {
  const certificates = await db.any(sql.type(certificateRow)`
    SELECT
      certificate.token,
      certificate.is_of_order AS "isOfOrder",
      owner.id AS "ownerId",
      owner.name AS "ownerName",
      dashboard.slug
    FROM certificate
    LEFT JOIN store ON store.account_id = certificate.account_id
    JOIN account AS owner ON owner.id = coalesce(store.organization_id, certificate.account_id)
    LEFT JOIN dashboard ON dashboard.account_id = owner.id
    WHERE certificate.token = ANY(${sql.array(tokens, "text")}) AND certificate.revoked_at IS NULL
  `);
  if (certificates.length === 0) {
    return new Map();
  }
  const known = sql.array(
    certificates.map(({ token }) => token),
    "text",
  );
  const items = sql.fragment`(
    SELECT token, record_id, kind FROM certificate WHERE token = ANY(${known})
    UNION ALL
    SELECT token, record_id, kind FROM certificate_item WHERE token = ANY(${known})
  ) AS item`;
  const registrations = await db.any(sql.type(registrationRow)`
    SELECT
      item.token,
      registration.kind,
      registration.mode,
      registration.count,
      registration.refunded_count AS "refundedCount",
      registration.created_at AS "createdAt",
      registration.planting_order_id IS NULL AS "isOrderedElsewhere",
      planting_order.stage,
      planting_order.planted_at AS "plantedAt",
      planting_order.verified_at AS "verifiedAt",
      planting_order.partner,
      planting_order.partner_name AS "partnerName",
      planting_site.name AS "siteName",
      planting_site.country
    FROM ${items}
    JOIN registration ON registration.id = item.record_id
    LEFT JOIN planting_order ON ${isOrderOfTree}
    LEFT JOIN planting_site ON planting_site.id = (planting_order.site_shares -> 0 ->> 'siteId')::integer
    WHERE item.kind <> 'donation'
  `);
  const donations = await db.any(sql.type(donationRow)`
    SELECT
      item.token,
      'donation' AS kind,
      donation.mode,
      donation.amount_cents AS "amountCents",
      coalesce(donation.confirmed_name, donation.charity_name) AS "charityName",
      donation.confirmed_name IS NOT NULL AS "isCharityConfirmed",
      donation.ein,
      donation.created_at AS "createdAt",
      donation.refunded AS "isRefunded",
      donation_refund.created_at AS "refundedAt"
    FROM ${items}
    JOIN donation ON donation.id = item.record_id
    LEFT JOIN donation_refund ON donation_refund.donation_id = donation.id
    WHERE item.kind = 'donation'
  `);
  const byToken = Map.groupBy([...registrations, ...donations], ({ token }) => token);
  return new Map(
    certificates.flatMap((certificate) => {
      const own = byToken.get(certificate.token);
      const oldestFirst = own?.toSorted(
        (one, other) => one.createdAt.getTime() - other.createdAt.getTime(),
      );
      return oldestFirst ? [[certificate.token, { ...certificate, items: oldestFirst }]] : [];
    }),
  );
};
