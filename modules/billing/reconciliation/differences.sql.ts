import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Kind } from "../../records/owner.rules.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import { describeDifference } from "../meterEvents.rules.ts";
import { sendAgain } from "../meterEvents.sql.ts";
import { inSpan } from "../streams.sql.ts";
import { meterEventIdentifierStem, minuteOf } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";

/** Units that the processor has in a minute beyond what was delivered; negative ones are missing there. */
export type FoundUnits = {
  readonly accountId: string;
  readonly kind: Kind;
  readonly customerId: string;
  readonly second: number;
  readonly units: number;
};

const idRow = z.strictObject({ id: z.bigint() });

/** Stores the event that corrects a difference, or replaces the open one of its minute. Must run under the stream's lock. */
const storeDifference = (
  transaction: DatabaseTransactionConnection,
  { accountId, kind, customerId, second, units }: FoundUnits,
  now: Date,
): Promise<bigint> => {
  const stem = meterEventIdentifierStem({ accountId, mode: "live", kind }, second);
  return transaction.oneFirst(sql.type(idRow)`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, failure, last_error,
        sealed_at
      )
    SELECT
      ${accountId}, 'live', ${kind}, ${second}, next.sequence, ${-units}, ${stem} || next.sequence, 'stripe', ${customerId},
      'failed', 'difference', ${describeDifference(units, customerId)}, ${timestamp(now)}
    FROM (
      SELECT coalesce(max(sequence), 0) + 1 AS sequence
      FROM meter_event
      WHERE account_id = ${accountId} AND mode = 'live' AND kind = ${kind} AND second = ${second}
    ) AS next
    ON CONFLICT (customer_id, kind, (second - second % 60)) WHERE failure = 'difference'
    DO UPDATE SET
      account_id = excluded.account_id, second = excluded.second, sequence = excluded.sequence,
      quantity = excluded.quantity, identifier = excluded.identifier, last_error = excluded.last_error,
      sealed_at = excluded.sealed_at
    RETURNING id
  `);
};

/** Replaces the open differences of a customer in a span. One that is found again keeps its id. Must run under their locks. */
export const replaceOpenDifferences = async (
  transaction: DatabaseTransactionConnection,
  { customerId, kind }: Pick<FoundUnits, "customerId" | "kind">,
  span: Span,
  found: readonly FoundUnits[],
  now: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM meter_event
    WHERE customer_id = ${customerId}
      AND kind = ${kind}
      AND ${inSpan("meter_event", span)}
      AND failure = 'difference'
      AND second - second % 60 <> ALL(${sql.array(
        found.map(({ second }) => minuteOf(second).start),
        "int8",
      )})
  `);
  for (const each of found) {
    await storeDifference(transaction, each, now);
  }
};

/**
 * Records what the processor has of the open differences among events as delivered, so that our sum of the minute equals the
 * processor's. The events themselves are sent or closed then, as all others. Must run under the locks of their streams.
 */
export const decideDifferences = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly bigint[],
  now: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, last_error, sealed_at,
        settled_at
      )
    SELECT
      account_id, mode, kind, second,
      (
        SELECT max(sequence)
        FROM meter_event AS other
        WHERE other.account_id = difference.account_id
          AND other.mode = difference.mode
          AND other.kind = difference.kind
          AND other.second = difference.second
      ) + row_number() OVER (PARTITION BY account_id, mode, kind, second ORDER BY id),
      -quantity, 'difference:' || id, processor, customer_id, 'delivered', last_error || '; see E' || id,
      ${timestamp(now)},
      -- Not now: the processor's sums contain it.
      to_timestamp(second)
    FROM meter_event AS difference
    WHERE id = ANY(${sql.array([...ids], "int8")}) AND failure = 'difference'
  `);
};

/** Sends what the processor lacks of the units that were found, without an operator's decision. */
export const sendDifference = async (
  transaction: DatabaseTransactionConnection,
  found: FoundUnits,
  now: Date,
): Promise<void> => {
  const id = await storeDifference(transaction, found, now);
  await decideDifferences(transaction, [id], now);
  await sendAgain(transaction, id, { processor: "stripe", customerId: found.customerId });
};
