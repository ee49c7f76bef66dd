import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { HandSettlement } from "./closeUsage.rules.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { lastSequenceOf } from "../meterEvents.sql.ts";
import type { ReportedStream } from "./reportedStreams.sql.ts";

const unitsRow = z.strictObject({ units: safeInteger });

/** The documents that a reference names, separated by commas. */
const documentsOf = (reference: FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`regexp_split_to_array(${reference}, '\\s*,\\s*')`;

/** Returns the units of the corrections that any of the named documents has settled; negative if it returned them. */
export const sumSettledCorrections = (
  db: CommonQueryMethods,
  { kind, reference }: HandSettlement,
): Promise<number> =>
  db.oneFirst(sql.type(unitsRow)`
    SELECT coalesce(sum(meter_event.quantity), 0)::bigint AS units
    FROM usage_correction
    JOIN meter_event ON meter_event.identifier = 'settled:' || usage_correction.id
    WHERE settlement_kind = ${kind}
      AND ${documentsOf(sql.fragment`settlement_reference`)} && ${documentsOf(sql.fragment`${reference}::text`)}
  `);

/** Units that the processor has and that no registration or refund explains. */
export type NewCorrection = {
  readonly second: number;
  /** Negative if refunds were lost. */
  readonly quantity: number;
  readonly restoredAt: Date;
  readonly reason: string;
  readonly operator: string;
  readonly now: Date;
  /** The document with which an operator took the units back. Null: a meter event does. */
  readonly settlement: HandSettlement | null;
};

/**
 * Far more than the sealings of any second. A sealing in the lost history may have used the following numbers, and an
 * identifier that was used before is in doubt for 15 minutes.
 */
const LOST_SEQUENCES = 1000;

const usageCorrectionRow = z.strictObject({
  id: safeInteger,
  deliveredId: safeInteger,
  sequence: z.int(),
});

const idRow = z.strictObject({ id: safeInteger });

/**
 * Records a correction: the units as a delivered event that was never sent, and a fact that takes them back. That fact is
 * sealed and sent like all usage, or belongs to a waived event with the operator's document. Must run under the lock of
 * the stream of the first account.
 * @returns the correction's id
 */
export const insertUsageCorrection = async (
  transaction: DatabaseTransactionConnection,
  { processor, mode, kind, customerId, accountIds: [accountId] }: ReportedStream,
  { second, quantity, restoredAt, reason, operator, now, settlement }: NewCorrection,
): Promise<number> => {
  const correctedAt = timestamp(now);
  const { id, deliveredId, sequence } = await transaction.one(sql.type(usageCorrectionRow)`
    WITH correction AS (
      INSERT INTO usage_correction
        (
          account_id, mode, kind, second, quantity, processor, customer_id, restored_at, reason, corrected_by,
          corrected_at
        )
      VALUES (
        ${accountId}, ${mode}, ${kind}, ${second}, ${quantity}, ${processor}, ${customerId},
        ${timestamp(restoredAt)}, ${reason}, ${operator}, ${correctedAt}
      )
      RETURNING id
    )
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, last_error,
        sealed_at, settled_at
      )
    SELECT
      ${accountId}, ${mode}, ${kind}, ${second},
      ${lastSequenceOf({
        accountId: sql.fragment`${accountId}::uuid`,
        mode: sql.fragment`${mode}`,
        kind: sql.fragment`${kind}`,
        second: sql.fragment`${second}::bigint`,
      })} + ${LOST_SEQUENCES},
      ${quantity}, 'lost:' || correction.id, ${processor}, ${customerId}, 'delivered',
      'lost in a failover; correction ' || correction.id || ' by ' || ${operator}::text || ': ' || ${reason}::text,
      ${correctedAt},
      -- Not now: the processor's sums contain it.
      to_timestamp(${second}::bigint)
    FROM correction
    RETURNING
      (SELECT id FROM correction) AS id,
      id AS "deliveredId",
      sequence
  `);
  const settledId =
    settlement === null
      ? null
      : await transaction.oneFirst(sql.type(idRow)`
          INSERT INTO meter_event
            (
              account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state,
              last_error, sealed_at, settled_at, settlement_kind, settlement_reference
            )
          VALUES (
            ${accountId}, ${mode}, ${kind}, ${second}, ${sequence + 1}, ${-quantity}, ${`settled:${id}`},
            ${processor}, ${customerId}, 'waived', ${`settled by ${operator}: ${reason}`}, ${correctedAt},
            ${correctedAt}, ${settlement.kind}, ${settlement.reference}
          )
          RETURNING id
        `);
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO usage_fact (account_id, mode, kind, correction_id, quantity, second, meter_event_id)
    VALUES
      (${accountId}, ${mode}, ${kind}, ${id}, ${quantity}, ${second}, ${deliveredId}),
      (${accountId}, ${mode}, ${kind}, ${id}, ${-quantity}, ${second}, ${settledId})
  `);
  return id;
};
