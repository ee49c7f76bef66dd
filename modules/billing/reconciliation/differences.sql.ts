import type { DatabaseTransactionConnection } from "slonik";
import type { Kind } from "../../records/owner.rules.ts";
import { jsonRows } from "../../../db/jsonRows.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import type { StoredMeterEvent } from "../meterEvents.rules.ts";
import { identifierOfSealing, nextSequence } from "../meterEvents.sql.ts";
import { inSpan, STREAM } from "../streams.sql.ts";
import { minuteOf } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";

/** Units that the processor has of a customer's minute beyond what was delivered; negative ones are missing there. */
export type FoundUnits = Pick<StoredMeterEvent, "accountId" | "second"> & {
  readonly units: number;
};

const DIFFERENCE = { ...STREAM, second: "int8", units: "int8", note: "text" } as const;

/**
 * Replaces the open differences of a customer in a span by the events that correct those that were found. One that is found
 * again keeps its id. Must run under the locks of their streams.
 */
export const replaceOpenDifferences = async (
  transaction: DatabaseTransactionConnection,
  { customerId, kind }: { readonly customerId: string; readonly kind: Kind },
  span: Span,
  found: readonly FoundUnits[],
  now: Date,
): Promise<void> => {
  const minutes = found.map(({ second }) => minuteOf(second).start);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM meter_event
    WHERE customer_id = ${customerId}
      AND kind = ${kind}
      AND ${inSpan("meter_event", span)}
      AND failure = 'difference'
      AND second - second % 60 <> ALL(${sql.array(minutes, "int8")})
  `);
  const rows = found.map(({ units, ...event }) => {
    const had = `${counted(Math.abs(units), "unit")} ${units > 0 ? "more" : "less"}`;
    const note = `Stripe had ${had} of ${customerId} than was delivered`;
    return { ...event, mode: "live", kind, units, note };
  });
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, failure, last_error,
        sealed_at
      )
    SELECT
      account_id, mode, kind, second, sequence, -units, ${identifierOfSealing}, 'stripe', ${customerId}, 'failed',
      'difference', note, ${timestamp(now)}
    FROM (
      SELECT found.*, ${nextSequence("found", "place")} AS sequence FROM (${jsonRows(DIFFERENCE, rows)}) AS found
    ) AS sealing
    ON CONFLICT (customer_id, kind, (second - second % 60)) WHERE failure = 'difference'
    DO UPDATE SET
      account_id = excluded.account_id, second = excluded.second, sequence = excluded.sequence,
      quantity = excluded.quantity, identifier = excluded.identifier, last_error = excluded.last_error,
      sealed_at = excluded.sealed_at
  `);
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
