import type { CommonQueryMethods, DatabaseTransactionConnection, ListSqlToken } from "slonik";
import { z } from "zod";
import type { Owner, AccountMode, Kind } from "../records/owner.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";
import { heldDispatcherLease } from "../billing/sending/dispatcherLease.sql.ts";
import type { DispatcherLease } from "../billing/sending/dispatcherLease.sql.ts";
import { safeInteger, sql, timestamp, inRange } from "../../db/sql.ts";
import { maximumQuantity } from "../billing/usageFacts.sql.ts";
import { keptOrderedCount } from "../planting/orders.sql.ts";
import { hasUsage } from "../billing/registrationFacts.sql.ts";
import { coreColumns, coreRow } from "./registrations.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import { newerThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { hasAttribution } from "../records/ownedRecords.sql.ts";
import { REFUND_OPERATIONS } from "../records/idempotencyKeys.rules.ts";
import type { Operation } from "../records/idempotencyKeys.rules.ts";
import { keyHash, knownKeys, recordOfKey, scopeOf } from "../records/idempotencyKeys.sql.ts";

/** One call that refunds units of a registration. */
type NewRefund = {
  readonly id: string;
  readonly registrationId: string;
  readonly count: number;
  readonly registeredAt: Date;
  readonly reason: string | null;
  readonly idempotencyKey: string | null;
};

/** The operation that an idempotency key of a client or an operator belongs to. */
const operationOf = ({ kind }: Owner, byOperator: boolean): Operation =>
  byOperator ? "operator_refund" : REFUND_OPERATIONS[kind];

const keysRow = z.strictObject({ keys: z.int() });

/**
 * Records refunds of locked registrations with their keys, and with the usage that they take back, at the second of each
 * registration. Waits for concurrent calls with the keys.
 * @returns how many of the keys were free
 */
export const insertRefunds = (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  refunds: readonly NewRefund[],
  createdAt: Date,
  byOperator: boolean,
): Promise<number> => {
  const { accountId, mode, kind } = owner;
  const scope = scopeOf(owner, operationOf(owner, byOperator));
  return transaction.oneFirst(sql.prepared("insert_refunds", keysRow)`
    WITH entry AS MATERIALIZED (
      SELECT
        (value ->> 0)::uuid AS id,
        (value ->> 1)::uuid AS registration_id,
        (value ->> 2)::bigint AS count,
        (value ->> 3)::bigint AS second,
        value ->> 4 AS reason,
        value ->> 5 AS idempotency_key
      FROM json_array_elements(${JSON.stringify(
        refunds.map(({ id, registrationId, count, registeredAt, reason, idempotencyKey }) => [
          id,
          registrationId,
          count,
          secondOf(registeredAt),
          reason,
          idempotencyKey,
        ]),
      )}) AS value
    ),
    updated AS (
      UPDATE registration
      SET refunded_count = refunded_count + refunded.count, ordered_count = ${keptOrderedCount}
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
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, refund_id, quantity, second)
      SELECT
        ${accountId}, ${mode}, ${kind}, registration.usage_batch, entry.id,
        -least(entry.count - part * ${maximumQuantity}, ${maximumQuantity}), entry.second
      FROM entry
      JOIN registration ON registration.id = entry.registration_id
      CROSS JOIN LATERAL generate_series(0, (entry.count - 1) / ${maximumQuantity}) AS part
      ORDER BY entry.id
    ),
    claimed AS (
      INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
      SELECT ${keyHash(scope, sql.identifier(["idempotency_key"]))} AS key_hash, ${accountId}, ${mode}, ${scope.operation}, id
      FROM entry
      WHERE idempotency_key IS NOT NULL
      ORDER BY key_hash
      ON CONFLICT (key_hash) DO NOTHING
      RETURNING key_hash
    )
    SELECT count(*)::integer AS keys FROM claimed
  `);
};

const keyedRefundRow = z.strictObject({ registrationId: z.uuid(), count: safeInteger });

/** Returns the refund that an idempotency key of an operator or a client belongs to, or null. */
export const findRefundByKey = (
  db: CommonQueryMethods,
  owner: Owner,
  idempotencyKey: string,
  byOperator: boolean,
): Promise<Readonly<z.output<typeof keyedRefundRow>> | null> =>
  db.maybeOne(sql.prepared("find_refund_by_key", keyedRefundRow)`
    SELECT refund.registration_id AS "registrationId", refund.count
    FROM refund
    WHERE refund.id = ${recordOfKey(keyHash(scopeOf(owner, operationOf(owner, byOperator)), sql.fragment`${idempotencyKey}`))}
  `);

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
  owner: Owner,
  idempotencyKeys: readonly string[],
): Promise<readonly KeyedRefund[]> =>
  db.any(sql.type(keyedRow)`
    SELECT
      known.key AS "idempotencyKey",
      refund.registration_id AS "registrationId",
      refund.count
    FROM ${knownKeys(owner, REFUND_OPERATIONS[owner.kind], idempotencyKeys)}
    CROSS JOIN LATERAL (SELECT * FROM refund WHERE refund.id = known.record_id LIMIT 1) AS refund
  `);

const waitingRefundsRow = z.strictObject({
  accountId: z.uuid(),
  registrationId: z.uuid(),
  ids: z.array(z.uuid()),
});

/** Refunds of a registration that wait for their workflow, which is one for all of them. */
export type WaitingRefunds = Readonly<z.output<typeof waitingRefundsRow>>;

/**
 * Lists registrations with refunds whose workflow has not been started yet. The accounts that have such refunds share the
 * limits equally, the oldest refunds of each first, so that none waits for the refunds of another. The query steps through
 * the index from account to account, so its cost does not grow with what waits beyond the limits.
 * @param limits the maximum of registrations, which is also that of accounts, and the maximum of refunds
 * @param after the last account of the page before, in the order of their ids; null for the first page
 */
export const listWaitingRefunds = (
  db: CommonQueryMethods,
  limits: { readonly registrations: number; readonly refunds: number },
  after: string | null = null,
): Promise<readonly WaitingRefunds[]> =>
  db.any(sql.type(waitingRefundsRow)`
    WITH RECURSIVE waiting AS (
      (
        SELECT account_id
        FROM refund
        WHERE dispatched_at IS NULL
          ${after === null ? sql.fragment`` : sql.fragment`AND account_id > ${after}`}
        -- With the second column, only the index of waiting refunds is in this order.
        ORDER BY account_id, created_at
        LIMIT 1
      )
      UNION ALL
      SELECT following.account_id
      FROM waiting
      CROSS JOIN LATERAL (
        SELECT account_id
        FROM refund
        WHERE dispatched_at IS NULL AND account_id > waiting.account_id
        ORDER BY account_id, created_at
        LIMIT 1
      ) AS following
    ),
    account AS MATERIALIZED (
      SELECT account_id FROM waiting LIMIT ${limits.registrations}
    ),
    registration AS (
      SELECT
        account.account_id,
        oldest.registration_id,
        array_agg(oldest.id) AS ids,
        row_number() OVER (PARTITION BY account.account_id ORDER BY min(oldest.created_at)) AS turn
      FROM account
      CROSS JOIN LATERAL (
        SELECT id, registration_id, created_at
        FROM refund
        WHERE refund.account_id = account.account_id AND dispatched_at IS NULL
        ORDER BY refund.account_id, created_at
        LIMIT (SELECT greatest(1, ${limits.refunds} / count(*)) FROM account)
      ) AS oldest
      GROUP BY account.account_id, oldest.registration_id
    )
    SELECT account_id AS "accountId", registration_id AS "registrationId", ids
    FROM registration
    ORDER BY turn, account_id
    LIMIT ${limits.registrations}
  `);

/**
 * Records that the workflow of refunds was started. A process that has lost the lease changes nothing: an operator may have
 * had the refunds dispatched again in the meantime.
 * @param ids those that were listed before the start. The workflow may have missed one that was recorded since
 */
export const markRefundsDispatched = async (
  db: CommonQueryMethods,
  ids: readonly string[],
  dispatchedAt: Date,
  lease: DispatcherLease,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE refund
    SET dispatched_at = ${timestamp(dispatchedAt)}
    FROM ${heldDispatcherLease(lease)} AS held
    WHERE id = ANY(${sql.array([...ids], "uuid")})
  `);
};

/** Selects an account's registrations of all kinds; null matches any. `from` is inclusive, `until` exclusive. */
export type RefundFilter = AccountMode & {
  readonly attribution: string | null;
  readonly from: Date | null;
  readonly until: Date | null;
};

const conditions = ({ accountId, mode, attribution, from, until }: RefundFilter): ListSqlToken =>
  sql.join(
    [
      sql.fragment`registration.account_id = ${accountId} AND registration.mode = ${mode}`,
      sql.fragment`registration.kind = ANY(${sql.array([...KINDS], "text")})`,
      sql.fragment`registration.refunded_count < registration.count`,
      ...(attribution === null ? [] : [hasAttribution("registration", attribution)]),
      ...inRange(sql.identifier(["registration", "created_at"]), { from, until }),
    ],
    sql.fragment` AND `,
  );

const sizeRow = z.strictObject({ registrations: safeInteger, units: z.bigint() });

/** Returns how many registrations match and have units left, and those units. */
export const sumRefundable = (
  db: CommonQueryMethods,
  filter: RefundFilter,
): Promise<Readonly<z.output<typeof sizeRow>>> =>
  db.one(sql.type(sizeRow)`
    SELECT
      count(*) AS registrations,
      coalesce(sum(registration.count - registration.refunded_count), 0)::bigint AS units
    FROM registration
    WHERE ${conditions(filter)}
  `);

const refundableRow = z.strictObject({ id: z.uuid(), position: z.string() });

/** A registration with units left. */
export type RefundableRecord = Readonly<z.output<typeof refundableRow>>;

/** Lists a page of the matching registrations of a kind that have units left, oldest first. */
export const listRefundable = (
  db: CommonQueryMethods,
  filter: RefundFilter,
  kind: Kind,
  { after, limit }: { readonly after: ListPosition | null; readonly limit: number },
): Promise<readonly RefundableRecord[]> =>
  db.any(sql.type(refundableRow)`
    SELECT registration.id, ${positionColumn("registration")}
    FROM registration
    WHERE ${conditions(filter)}
      AND registration.kind = ${kind}
      AND ${newerThan("registration", after)}
    ORDER BY registration.created_at, registration.id
    LIMIT ${limit}
  `);
