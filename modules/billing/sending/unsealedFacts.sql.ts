import type { DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../../records/owner.rules.ts";
import { PROCESSORS } from "../usage.rules.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { foldedWithSecond } from "../folding/foldedUsage.sql.ts";
import { FAILED } from "../meterEvents.sql.ts";
import { shareRegistrations } from "../registrationFacts.sql.ts";
import type { BillingTarget } from "../usageFacts.sql.ts";
import { maximumQuantity } from "../usageFacts.sql.ts";

const unsealedRow = z.strictObject({
  place: safeInteger,
  second: safeInteger,
  ids: z.array(z.string()),
  quantity: z.bigint(),
  alreadyReported: z.bigint(),
  held: z.boolean(),
  processor: z.enum(PROCESSORS),
  customerId: z.string().nullable(),
});

/** The summed facts of one future meter event. */
export type UnsealedPart = Omit<Readonly<z.output<typeof unsealedRow>>, "place">;

/**
 * The facts of the registrations that a fact of the query takes units back of, as a table. Without the OFFSET, the planner reads
 * all sealed facts for each refund where the statistics know of none.
 */
const originalFacts = sql.fragment`
  (
    SELECT * FROM usage_fact AS original
    WHERE ${shareRegistrations("original", "fact")} AND original.refund_id IS NULL
    OFFSET 0
  )
`;

const mayBeBilledSince = (heldAt: Date | null): FragmentSqlToken =>
  heldAt === null
    ? sql.fragment`false`
    : sql.fragment`(meter_event.state = 'blocked' AND meter_event.settled_at >= ${timestamp(heldAt)})`;

/** Joins, for a fact of a refund, the usage that it takes back: `failed`, `billed` or `folded`. */
const originalTargets = (mayBeBilled: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  LEFT JOIN LATERAL (
    SELECT original.id
    FROM ${originalFacts} AS original
    JOIN meter_event ON meter_event.id = original.meter_event_id
    WHERE fact.refund_id IS NOT NULL AND meter_event.state IN (${FAILED}, 'waived') AND NOT ${mayBeBilled}
    LIMIT 1
  ) AS failed ON true
  LEFT JOIN LATERAL (
    SELECT meter_event.processor, meter_event.customer_id
    FROM ${originalFacts} AS original
    JOIN meter_event ON meter_event.id = original.meter_event_id
    WHERE fact.refund_id IS NOT NULL AND (meter_event.state IN ('delivered', 'void') OR ${mayBeBilled})
    ORDER BY original.id
    LIMIT 1
  ) AS billed ON true
  LEFT JOIN LATERAL (
    SELECT folded_usage.processor, nullif(folded_usage.customer_id, '') AS customer_id
    FROM folded_usage
    WHERE fact.refund_id IS NOT NULL
      AND billed.processor IS NULL
      AND ${foldedWithSecond({
        accountId: sql.fragment`stream.account_id`,
        mode: sql.fragment`stream.mode`,
        kind: sql.fragment`stream.kind`,
        second: sql.fragment`fact.second`,
      })}
    LIMIT 1
  ) AS folded ON true
`;

/** Defines the query `fitting`: the facts of the query `unsealed`, and whether each of them fits into the meter event. */
const fittingFacts = sql.fragment`
  summed AS (
    SELECT *, sum(quantity) OVER (PARTITION BY place, second, held, processor, customer_id ORDER BY id) AS running
    FROM unsealed
  ),
  fitting AS (
    -- Stop at the first fact that does not fit. Without the skipped facts, later running sums would be wrong.
    SELECT
      *,
      bool_and(abs(running) <= ${maximumQuantity}) OVER (
        PARTITION BY place, second, held, processor, customer_id ORDER BY id
      ) AS fits
    FROM summed
  )
`;

type UnsealedStream = Owner & {
  readonly current: BillingTarget;
  readonly firstSecond: number;
};

const streamTable = (streams: readonly UnsealedStream[]) =>
  sql.unnest(
    streams.map(({ accountId, mode, kind, current, firstSecond }, place) => [
      place,
      accountId,
      mode,
      kind,
      firstSecond,
      current.processor,
      current.customerId,
    ]),
    ["int8", "uuid", "text", "text", "int8", "text", "text"],
  );

/**
 * Sums the unsealed facts of each stream's oldest seconds that have any, in groups that each become one meter event. New
 * usage is billed to the current target, a refund to the target that was billed for the registration, a correction to its
 * own. Refunds of usage that the processor does not have are `held`. Units that the processor already has are not in a
 * group's quantity. A group takes only as many facts as fit into one event.
 * @param streams the streams with the current targets of their usage, and the first second that is looked at. An index entry of
 *   a sealed fact may remain for long, so each earlier second would have to be read again.
 * @param options the last second that is looked at, the number of a stream's oldest facts whose seconds are summed, and for a
 *   comparison the begin of the hold: usage that was blocked since may have been billed
 * @returns the groups of each stream in the given order, the oldest second first
 */
export const listOldestUnsealedFacts = async (
  transaction: DatabaseTransactionConnection,
  streams: readonly UnsealedStream[],
  {
    lastSecond,
    facts,
    heldAt = null,
  }: { readonly lastSecond: number; readonly facts: number; readonly heldAt?: Date | null },
): Promise<readonly (readonly UnsealedPart[])[]> => {
  const rows = await transaction.any(sql.type(unsealedRow)`
    WITH unsealed AS (
      SELECT
        stream.place,
        fact.id,
        fact.second,
        fact.quantity - coalesce(fact.already_reported, 0) AS quantity,
        coalesce(fact.already_reported, 0) AS already_reported,
        failed.id IS NOT NULL AS held,
        coalesce(correction.processor, billed.processor, folded.processor, stream.processor) AS processor,
        CASE
          WHEN correction.id IS NOT NULL THEN correction.customer_id
          WHEN billed.processor IS NOT NULL THEN billed.customer_id
          WHEN folded.processor IS NOT NULL THEN folded.customer_id
          ELSE stream.customer_id
        END AS customer_id
      FROM ${streamTable(streams)} AS stream (place, account_id, mode, kind, first_second, processor, customer_id)
      -- The limits and offsets keep the planner from reading whole tables: it goes through the indexes, stream by stream.
      CROSS JOIN LATERAL (
        SELECT DISTINCT second
        FROM (
          SELECT second
          FROM usage_fact
          WHERE account_id = stream.account_id
            AND mode = stream.mode
            AND kind = stream.kind
            AND meter_event_id IS NULL
            AND second >= stream.first_second
            AND second <= ${lastSecond}
          ORDER BY second
          LIMIT ${facts}
        ) AS first
      ) AS oldest
      CROSS JOIN LATERAL (
        SELECT *
        FROM usage_fact
        WHERE account_id = stream.account_id
          AND mode = stream.mode
          AND kind = stream.kind
          AND meter_event_id IS NULL
          AND second = oldest.second
        OFFSET 0
      ) AS fact
      LEFT JOIN usage_correction AS correction ON correction.id = fact.correction_id
      ${originalTargets(mayBeBilledSince(heldAt))}
    ),
    ${fittingFacts}
    SELECT
      place,
      second,
      array_agg(id::text) AS ids,
      sum(quantity)::bigint AS quantity,
      sum(already_reported)::bigint AS "alreadyReported",
      held,
      processor,
      customer_id AS "customerId"
    FROM fitting
    WHERE fits
    GROUP BY place, second, held, processor, customer_id
    ORDER BY place, second, held DESC, processor, customer_id
  `);
  const parts: UnsealedPart[][] = streams.map(() => []);
  for (const { place, ...part } of rows) {
    parts[place]?.push(part);
  }
  return parts;
};
