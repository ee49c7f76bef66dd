import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { PROCESSORS } from "./usage.rules.ts";
import type { HandSettlement } from "./reconciliation/closeUsage.rules.ts";
import { SETTLEMENT_KINDS } from "./reconciliation/closeUsage.rules.ts";
import type { MeterEventState } from "./meterEvents.rules.ts";
import { MAXIMUM_DELAY_MS } from "./sending/decideNextStep.rules.ts";
import {
  METER_EVENT_STATES,
  DELIVERED_LATE,
  FAILED_STATES,
  UNFINISHED_STATES,
} from "./meterEvents.rules.ts";
import type { ProcessorName } from "./usage.rules.ts";
import { ownerColumns } from "../records/columns.sql.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { isLeaseFree } from "../../db/leases.ts";
import type { Lease } from "../../db/leases.ts";
import { ofStream, streamsTable } from "./streams.sql.ts";

export const meterEventRow = z.strictObject({
  id: z.bigint(),
  ...ownerColumns,
  second: safeInteger,
  quantity: safeInteger,
  alreadyReported: safeInteger,
  identifier: z.string(),
  processor: z.enum(PROCESSORS),
  customerId: z.string().nullable(),
  keyGeneration: z.int(),
  state: z.enum(METER_EVENT_STATES),
  attempts: z.int(),
  firstAttemptAt: z.date().nullable(),
  leasedUntil: z.date().nullable(),
  retryAt: z.date().nullable(),
  outcomeUnknown: z.boolean(),
  inDoubtSince: z.date().nullable(),
  lastError: z.string().nullable(),
  sealedAt: z.date(),
  settledAt: z.date().nullable(),
  settlementKind: z.enum(SETTLEMENT_KINDS).nullable(),
  settlementReference: z.string().nullable(),
});

export type StoredMeterEvent = Readonly<z.output<typeof meterEventRow>>;

export const meterEventColumns = sql.fragment`
  meter_event.id,
  meter_event.account_id AS "accountId",
  meter_event.mode,
  meter_event.kind,
  meter_event.second,
  meter_event.quantity,
  meter_event.already_reported AS "alreadyReported",
  meter_event.identifier,
  meter_event.processor,
  meter_event.customer_id AS "customerId",
  meter_event.key_generation AS "keyGeneration",
  meter_event.state,
  meter_event.attempts,
  meter_event.first_attempt_at AS "firstAttemptAt",
  meter_event.leased_until AS "leasedUntil",
  meter_event.retry_at AS "retryAt",
  meter_event.outcome_unknown AS "outcomeUnknown",
  meter_event.in_doubt_since AS "inDoubtSince",
  meter_event.last_error AS "lastError",
  meter_event.sealed_at AS "sealedAt",
  meter_event.settled_at AS "settledAt",
  meter_event.settlement_kind AS "settlementKind",
  meter_event.settlement_reference AS "settlementReference"
`;

/** The last sequence of a second's sealings; 0 if it has none. The next sealing follows it. */
export const lastSequenceOf = ({
  accountId,
  mode,
  kind,
  second,
}: {
  readonly accountId: FragmentSqlToken;
  readonly mode: FragmentSqlToken;
  readonly kind: FragmentSqlToken;
  readonly second: FragmentSqlToken;
}): FragmentSqlToken => sql.fragment`
  (
    SELECT coalesce(max(sequence), 0)
    FROM meter_event
    WHERE meter_event.account_id = ${accountId}
      AND meter_event.mode = ${mode}
      AND meter_event.kind = ${kind}
      AND meter_event.second = ${second}
  )
`;

/** States for `state IN (…)`. PostgreSQL uses the partial indexes over states only if they are constants. */
const constants = (states: readonly MeterEventState[]): FragmentSqlToken =>
  sql.fragment`${sql.join(
    states.map((state) => sql.literalValue(state)),
    sql.fragment`, `,
  )}`;

export const UNFINISHED = constants(UNFINISHED_STATES);

export const FAILED = constants(FAILED_STATES);

/** The condition of usage that counts as not sent, but that the processor may have. A document closes it. */
export const inDoubt = sql.fragment`(
  meter_event.outcome_unknown
  AND meter_event.settlement_reference IS NULL
  AND meter_event.state IN (${FAILED}, 'waived')
)`;

export const findUnfinishedMeterEvent = (
  db: CommonQueryMethods,
  stream: Owner,
): Promise<StoredMeterEvent | null> =>
  db.maybeOne(sql.prepared("find_unfinished_meter_event", meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE ${ofStream("meter_event", stream)} AND state IN (${UNFINISHED})
  `);

export const findMeterEvent = (
  db: CommonQueryMethods,
  id: bigint,
): Promise<StoredMeterEvent | null> =>
  db.maybeOne(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE id = ${id}
  `);

/** Locks a meter event's row until the transaction ends, and returns it. */
export const lockMeterEventRow = (
  transaction: DatabaseTransactionConnection,
  id: bigint,
): Promise<StoredMeterEvent | null> =>
  transaction.maybeOne(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE id = ${id}
    FOR NO KEY UPDATE
  `);

/** Lists the processor's events with these identifiers; unknown ones are left out. */
export const listMeterEventsByIdentifier = (
  db: CommonQueryMethods,
  processor: ProcessorName,
  identifiers: readonly string[],
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE identifier = ANY(${sql.array([...identifiers], "text")}) AND processor = ${processor}
    ORDER BY id
  `);

/**
 * The condition of an unfinished event that a shard's sender continues with: one that was never attempted, one whose attempt
 * ended with its process, or one whose retry is due. A retry that is due later
 * than any delay lasts was recorded before the clock was set back.
 */
export const isResumable = (lease: Lease): FragmentSqlToken => {
  const longestDelay = new Date(lease.now.getTime() + 2 * MAXIMUM_DELAY_MS);
  return sql.fragment`(
    meter_event.state = 'sealed'
    OR (
      meter_event.leased_until IS NOT NULL
      AND ${isLeaseFree(sql.fragment`meter_event.leased_until`, lease)}
    )
    OR (
      meter_event.leased_until IS NULL
      AND coalesce(
        meter_event.retry_at <= ${timestamp(lease.now)} OR meter_event.retry_at > ${timestamp(longestDelay)},
        true
      )
    )
  )`;
};

const unfinishedRow = meterEventRow.extend({ isResumable: z.boolean() });

/** Returns the unfinished events of the streams that have one, and whether a shard's sender continues with them. */
export const listUnfinishedMeterEvents = (
  db: CommonQueryMethods,
  streams: readonly Owner[],
  lease: Lease,
): Promise<readonly Readonly<z.output<typeof unfinishedRow>>[]> =>
  db.any(sql.type(unfinishedRow)`
    SELECT ${meterEventColumns}, ${isResumable(lease)} AS "isResumable"
    FROM ${streamsTable(streams)}
    CROSS JOIN LATERAL (
      SELECT *
      FROM meter_event
      WHERE account_id = stream.account_id
        AND mode = stream.mode
        AND kind = stream.kind
        AND state IN (${UNFINISHED})
      -- Keeps the planner from reading all unfinished events for a few streams.
      OFFSET 0
    ) AS meter_event
  `);

/** The last error of an event with a note before it. */
export const noteBeforeError = (note: string | null): FragmentSqlToken =>
  sql.fragment`nullif(concat_ws('; before: ', ${note}::text, last_error), '')`;

/**
 * Moves a settled event to the state that a later decision leads to: an operator's, or the processor's. The outcome of one
 * that is blocked stays unknown, whatever its next state is. Must run under the stream's lock.
 */
export const moveSettledEvent = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  settlement: {
    readonly state: Extract<
      MeterEventState,
      "delivered" | "rejected" | "blocked" | "superseded" | "waived"
    >;
    /** The reason, put before the last error. */
    readonly note: string | null;
    /** Whether it was delivered after its billing period ended. That is recorded in place of the last error. */
    readonly isLate?: boolean;
    /** With what an operator settled it by hand. Without one, an earlier document stays. */
    readonly document?: HandSettlement;
    /** Replaces the quantity, unless it is null: the part that the processor has. */
    readonly acceptedQuantity: number | null;
    /** Replaces the customer, unless it is null: the one whose sums have the usage. */
    readonly customerId?: string | null;
    readonly settledAt: Date;
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = ${settlement.state},
      quantity = coalesce(${settlement.acceptedQuantity}::bigint, quantity),
      customer_id = coalesce(${settlement.customerId ?? null}, customer_id),
      outcome_unknown = outcome_unknown OR ${settlement.state === "blocked"},
      settlement_kind = coalesce(${settlement.document?.kind ?? null}, settlement_kind),
      settlement_reference = coalesce(${settlement.document?.reference ?? null}, settlement_reference),
      last_error = ${settlement.isLate ? sql.fragment`${DELIVERED_LATE}` : noteBeforeError(settlement.note)},
      settled_at = ${timestamp(settlement.settledAt)}
    WHERE id = ${id}
  `);
};

/** Returns whether an attempt of a stream, or of any stream (null), may be in progress. */
export const isAttemptInProgress = (
  db: CommonQueryMethods,
  stream: Owner | null,
  lease: Lease,
): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT
    FROM meter_event
    WHERE state IN (${UNFINISHED})
      AND ${stream === null ? sql.fragment`true` : ofStream("meter_event", stream)}
      AND NOT ${isLeaseFree(sql.fragment`leased_until`, lease)}
  `);
