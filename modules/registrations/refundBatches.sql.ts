import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { hasUsage } from "../billing/registrationFacts.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { coreColumns, coreRow } from "./registrations.sql.ts";

const lockedRow = z.strictObject({ ...coreRow, hasUsage: z.boolean() });

/** A registration that is locked, without what a client attached to it. */
export type LockedRegistration = Readonly<z.output<typeof lockedRow>>;

/** Locks registrations until the transaction ends. */
export const lockRegistrations = (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
): Promise<readonly LockedRegistration[]> =>
  transaction.any(sql.type(lockedRow)`
    SELECT
      ${coreColumns},
      ${hasUsage} AS "hasUsage"
    FROM registration
    WHERE registration.id = ANY(${sql.array([...ids], "uuid")})
    ORDER BY registration.id
    FOR UPDATE OF registration
  `);

const keyedRow = z.strictObject({
  idempotencyKey: z.string(),
  registrationId: z.uuid(),
  count: safeInteger,
});

/** The refund that an idempotency key belongs to. */
export type KeyedRefund = Readonly<z.output<typeof keyedRow>>;

/** Returns the refunds that belong to keys of clients. */
export const listRefundsByKeys = (
  db: CommonQueryMethods,
  { accountId, mode, kind }: Owner,
  idempotencyKeys: readonly string[],
): Promise<readonly KeyedRefund[]> =>
  db.any(sql.type(keyedRow)`
    SELECT
      refund_key.idempotency_key AS "idempotencyKey",
      refund.registration_id AS "registrationId",
      refund.count
    FROM unnest(${sql.array([...idempotencyKeys], "text")}) AS given (key)
    CROSS JOIN LATERAL (
      SELECT *
      FROM refund_key
      WHERE account_id = ${accountId} AND mode = ${mode} AND kind = ${kind} AND key_digest = text_digest(given.key)
        AND NOT by_operator
      OFFSET 0
    ) AS refund_key
    CROSS JOIN LATERAL (SELECT * FROM refund WHERE refund.id = refund_key.refund_id OFFSET 0) AS refund
  `);
