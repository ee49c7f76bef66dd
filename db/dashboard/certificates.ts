import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { kindColumn, modeColumn, orderStageColumn, safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";

const tokenRow = z.strictObject({ token: z.string() });

/** Returns the token of a registration's certificate, which is an existing one unless it was revoked. */
export const getOrInsertCertificate = (
  db: CommonQueryMethods,
  certificate: {
    readonly token: string;
    readonly accountId: string;
    readonly registrationId: string;
    readonly createdAt: Date;
  },
): Promise<string> =>
  db.oneFirst(sql.type(tokenRow)`
    INSERT INTO certificate (token, account_id, registration_id, created_at)
    VALUES (
      ${certificate.token}, ${certificate.accountId}, ${certificate.registrationId}, ${sql.timestamp(certificate.createdAt)}
    )
    ON CONFLICT (registration_id) WHERE revoked_at IS NULL DO UPDATE SET registration_id = excluded.registration_id
    RETURNING token
  `);

const revokedRow = z.strictObject({ accountId: z.uuid(), registrationId: z.uuid() });

/** @returns whose certificate it was; null if there is none with the token, or it was revoked before */
export const revokeCertificate = (
  transaction: DatabaseTransactionConnection,
  token: string,
  revokedAt: Date,
): Promise<z.output<typeof revokedRow> | null> =>
  transaction.maybeOne(sql.type(revokedRow)`
    UPDATE certificate
    SET revoked_at = ${sql.timestamp(revokedAt)}
    WHERE token = ${token} AND revoked_at IS NULL
    RETURNING account_id AS "accountId", registration_id AS "registrationId"
  `);

const certifiedRow = z.strictObject({
  token: z.string(),
  /** The organization whose brand the page has: of a store, the one that owns it. */
  ownerId: z.uuid(),
  ownerName: z.string(),
  /** The slug of the owner's public page; null if it has none. */
  slug: z.string().nullable(),
  mode: modeColumn,
  kind: kindColumn,
  count: safeInteger,
  refundedCount: safeInteger,
  createdAt: z.date(),
  isOrderedElsewhere: z.boolean(),
  stage: orderStageColumn.nullable(),
  plantedAt: z.date().nullable(),
  verifiedAt: z.date().nullable(),
  partner: z.string().nullable(),
  partnerName: z.string().nullable(),
  siteName: z.string().nullable(),
  country: z.string().nullable(),
});

/** A registration with what is known of its planting. It has nothing about customers. */
export type CertifiedRegistration = Readonly<z.output<typeof certifiedRow>>;

/** Returns what certificates certify, by their tokens. Unknown and revoked ones are absent. */
export const findCertified = async (
  db: CommonQueryMethods,
  tokens: readonly string[],
): Promise<ReadonlyMap<string, CertifiedRegistration>> => {
  const rows = await db.any(sql.type(certifiedRow)`
    SELECT
      certificate.token,
      owner.id AS "ownerId",
      owner.name AS "ownerName",
      dashboard.slug,
      registration.mode,
      registration.kind,
      registration.count,
      registration.refunded_count AS "refundedCount",
      registration.created_at AS "createdAt",
      registration.is_ordered_elsewhere AS "isOrderedElsewhere",
      planting_order.stage,
      planting_order.planted_at AS "plantedAt",
      planting_order.verified_at AS "verifiedAt",
      planting_order.partner,
      planting_order.partner_name AS "partnerName",
      planting_site.name AS "siteName",
      planting_site.country
    FROM certificate
    JOIN registration ON registration.id = certificate.registration_id
    LEFT JOIN store ON store.account_id = certificate.account_id
    JOIN account AS owner ON owner.id = coalesce(store.organization_id, certificate.account_id)
    LEFT JOIN dashboard ON dashboard.account_id = owner.id
    LEFT JOIN planting_order ON planting_order.id = registration.planting_order_id
    LEFT JOIN planting_site ON planting_site.id = (planting_order.site_shares -> 0 ->> 'siteId')::integer
    WHERE certificate.token = ANY(${sql.array(tokens, "text")}) AND certificate.revoked_at IS NULL
  `);
  return new Map(rows.map((row) => [row.token, row]));
};
