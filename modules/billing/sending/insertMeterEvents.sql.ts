import type { DatabaseTransactionConnection } from "slonik";
import type { Owner } from "../../records/owner.rules.ts";
import type { MeterEventState } from "../meterEvents.rules.ts";
import { meterEventIdentifierStem } from "../usage.rules.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import { lastSequenceOf } from "../folding/foldedUsage.sql.ts";
import { UNFINISHED, meterEventColumns, meterEventRow } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";

/** A meter event to insert, with the facts that it sums up. */
export type SealedEvent = {
  readonly stream: Owner;
  readonly factIds: readonly string[];
  readonly second: number;
  readonly quantity: bigint;
  readonly alreadyReported: bigint;
  readonly processor: StoredMeterEvent["processor"];
  readonly customerId: string | null;
  /** `sending`: its first attempt begins with the sealing. */
  readonly state: Extract<MeterEventState, "sealed" | "sending" | "void" | "held">;
};

/**
 * Inserts the next sealings of seconds and assigns their facts to them. Must run under the streams' locks, which keep the
 * sequences free of gaps.
 * @param leasedUntil when the leases of the attempts that begin with the sealing end; null if there are none
 * @returns the events in their order
 */
export const insertMeterEvents = (
  transaction: DatabaseTransactionConnection,
  events: readonly SealedEvent[],
  sealedAt: Date,
  leasedUntil: Date | null = null,
): Promise<readonly StoredMeterEvent[]> =>
  transaction.any(sql.type(meterEventRow)`
    WITH sealing AS (
      SELECT
        place::integer, account_id, mode, kind, second, quantity, already_reported, stem, processor, customer_id, state,
        ${lastSequenceOf({
          accountId: sql.fragment`event.account_id`,
          mode: sql.fragment`event.mode`,
          kind: sql.fragment`event.kind`,
          second: sql.fragment`event.second`,
        })} + row_number() OVER (PARTITION BY account_id, mode, kind, second ORDER BY place) AS sequence
      FROM ${sql.unnest(
        events.map(({ stream, second, quantity, ...event }, index) => [
          index,
          stream.accountId,
          stream.mode,
          stream.kind,
          second,
          quantity,
          event.alreadyReported,
          meterEventIdentifierStem(stream, second),
          event.processor,
          event.customerId,
          event.state,
        ]),
        ["int8", "uuid", "text", "text", "int8", "int8", "int8", "text", "text", "text", "text"],
      )} AS event (
        place, account_id, mode, kind, second, quantity, already_reported, stem, processor, customer_id, state
      )
    ),
    inserted AS (
      INSERT INTO meter_event
        (
          account_id, mode, kind, second, sequence, quantity, already_reported, identifier, processor, customer_id,
          state, sealed_at, settled_at, attempts, first_attempt_at, leased_until
        )
      SELECT
        account_id, mode, kind, second, sequence, quantity, already_reported, stem || sequence, processor, customer_id,
        state, sealed_at,
        CASE WHEN state NOT IN (${UNFINISHED}) THEN sealed_at END,
        CASE WHEN state = 'sending' THEN 1 ELSE 0 END,
        CASE WHEN state = 'sending' THEN sealed_at END,
        CASE WHEN state = 'sending' THEN ${timestamp(leasedUntil)} END
      FROM sealing
      CROSS JOIN (VALUES (${timestamp(sealedAt)})) AS time (sealed_at)
      ORDER BY place
      RETURNING *
    ),
    assignment AS MATERIALIZED (
      SELECT fact.id AS fact_id, inserted.id AS meter_event_id
      FROM ${sql.unnest(
        events.flatMap(({ factIds }, index) => factIds.map((id) => [index, id])),
        ["int8", "int8"],
      )} AS fact (place, id)
      JOIN sealing ON sealing.place = fact.place
      JOIN inserted ON inserted.identifier = sealing.stem || sealing.sequence
    ),
    assigned AS (
      UPDATE usage_fact
      SET meter_event_id = assignment.meter_event_id
      FROM assignment
      WHERE usage_fact.id = assignment.fact_id
        -- Without it the planner reads all facts to find hundreds of them.
        AND usage_fact.id = ANY(${sql.array(
          events.flatMap(({ factIds }) => factIds),
          "int8",
        )})
    )
    SELECT ${meterEventColumns}
    FROM inserted AS meter_event
    JOIN sealing ON meter_event.identifier = sealing.stem || sealing.sequence
    ORDER BY sealing.place
  `);
