import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Owner } from "../../domain/registrations/registrations.ts";
import { hasUsage } from "../billing/registrationFacts.ts";
import { maximumQuantity } from "../billing/usageFacts.ts";
import { safeInteger } from "../columns.ts";
import { sql, timestamp } from "../sql.ts";
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

/** A refund to record. `second` is that of the registration. */
export type NewRefund = {
  readonly id: string;
  readonly registrationId: string;
  readonly count: number;
  readonly second: number;
  readonly reason: string | null;
  readonly idempotencyKey: string | null;
};

const keysRow = z.strictObject({ keys: z.int() });

/**
 * Records refunds of locked registrations with their keys and usage facts, and waits for concurrent calls with the keys.
 * @returns how many of the keys were free
 */
export const insertRefunds = (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, kind }: Owner,
  refunds: readonly NewRefund[],
  createdAt: Date,
): Promise<number> =>
  transaction.oneFirst(sql.type(keysRow)`
    WITH entry AS MATERIALIZED (
      SELECT
        (value ->> 0)::uuid AS id,
        (value ->> 1)::uuid AS registration_id,
        (value ->> 2)::bigint AS count,
        (value ->> 3)::bigint AS second,
        value ->> 4 AS reason,
        value ->> 5 AS idempotency_key
      FROM json_array_elements(${JSON.stringify(
        refunds.map(({ id, registrationId, count, second, reason, idempotencyKey }) => [
          id,
          registrationId,
          count,
          second,
          reason,
          idempotencyKey,
        ]),
      )}) AS value
    ),
    updated AS (
      UPDATE registration
      SET refunded_count = refunded_count + refunded.count
      FROM (SELECT registration_id, sum(count)::bigint AS count FROM entry GROUP BY registration_id) AS refunded
      WHERE registration.id = refunded.registration_id
    ),
    inserted AS (
      INSERT INTO refund (id, registration_id, account_id, count, reason, created_at)
      SELECT id, registration_id, ${accountId}, count, reason, ${timestamp(createdAt)}
      FROM entry
      ORDER BY id
    ),
    fact AS (
      INSERT INTO usage_fact (account_id, mode, meter, usage_batch, refund_id, quantity, second)
      SELECT
        ${accountId}, ${mode}, ${kind}, registration.usage_batch, entry.id,
        -least(entry.count - part * ${maximumQuantity}, ${maximumQuantity}), entry.second
      FROM entry
      JOIN registration ON registration.id = entry.registration_id
      CROSS JOIN LATERAL generate_series(0, (entry.count - 1) / ${maximumQuantity}) AS part
      ORDER BY entry.id
    ),
    key AS (
      INSERT INTO refund_key (account_id, mode, kind, idempotency_key, refund_id)
      SELECT ${accountId}, ${mode}, ${kind}, idempotency_key, id
      FROM entry
      WHERE idempotency_key IS NOT NULL
      ORDER BY idempotency_key
      ON CONFLICT (account_id, mode, kind, idempotency_key) DO NOTHING
      RETURNING idempotency_key
    )
    SELECT count(*)::integer AS keys FROM key
  `);
