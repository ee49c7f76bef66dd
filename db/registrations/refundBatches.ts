import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Owner } from "../../domain/registrations/registrations.ts";
import { hasUsage } from "../billing/registrationFacts.ts";
import { safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";
import { coreColumns, coreRow } from "./registrations.ts";

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

/** Returns the refunds that belong to the keys. */
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
    FROM refund_key
    JOIN refund ON refund.id = refund_key.refund_id
    WHERE refund_key.account_id = ${accountId}
      AND refund_key.mode = ${mode}
      AND refund_key.kind = ${kind}
      AND refund_key.idempotency_key = ANY(${sql.array([...idempotencyKeys], "text")})
  `);
