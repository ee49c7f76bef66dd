import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Kind } from "../../records/owner.rules.ts";
import { jsonRows } from "../../../db/jsonRows.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import { describeDifference } from "../meterEvents.rules.ts";
import { identifierOfSealing, nextSequence, sendAgain } from "../meterEvents.sql.ts";
import { inSpan, STREAM } from "../streams.sql.ts";
import { minuteOf } from "../usage.rules.ts";
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

const DIFFERENCE = {
  ...STREAM,
  second: "int8",
  customerId: "text",
  units: "int8",
  note: "text",
} as const;

/** Stores the events that correct differences, or replaces the open ones of their minutes. Must run under the streams' locks. */
const storeDifferences = (
  transaction: DatabaseTransactionConnection,
  found: readonly FoundUnits[],
  now: Date,
): Promise<readonly bigint[]> => {
  const rows = found.map((each) =>
    Object.assign({ mode: "live", note: describeDifference(each.units, each.customerId) }, each),
  );
  return transaction.anyFirst(sql.type(idRow)`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, failure, last_error,
        sealed_at
      )
    SELECT
      account_id, mode, kind, second, sequence, -units, ${identifierOfSealing}, 'stripe', customer_id, 'failed',
      'difference', note, ${timestamp(now)}
    FROM (
      SELECT found.*, ${nextSequence("found", "place")} AS sequence FROM (${jsonRows(DIFFERENCE, rows)}) AS found
    ) AS sealing
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
  await storeDifferences(transaction, found, now);
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
      account_id, mode, kind, second, ${nextSequence("difference", "id")}, -quantity, 'difference:' || id, processor, customer_id, 'delivered', last_error || '; see E' || id,
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
  const [id = 0n] = await storeDifferences(transaction, [found], now);
  await decideDifferences(transaction, [id], now);
  await sendAgain(transaction, id, { processor: "stripe", customerId: found.customerId });
};
