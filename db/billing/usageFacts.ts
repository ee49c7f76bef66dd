import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { UsageStream } from "../../domain/billing/usage.ts";
import { MAXIMUM_QUANTITY } from "../../domain/billing/usage.ts";
import { processorColumn, safeInteger, streamColumns } from "../columns.ts";
import type { StoredMeterEvent } from "./meterEvents.ts";
import { FAILED, UNFINISHED } from "./meterEventStates.ts";
import { sql } from "../sql.ts";

/** A constant of the statement: where that is prepared, there is nothing to send and nothing to look at anew. */
export const maximumQuantity = sql.fragment`${sql.literalValue(String(MAXIMUM_QUANTITY))}::bigint`;

/** Books the usage that a refund takes back, at the second of the registration. */
export const insertRefundFacts = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, meter }: UsageStream,
  refund: {
    readonly id: string;
    readonly registrationId: string;
    readonly count: number;
    readonly second: number;
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO usage_fact (account_id, mode, meter, registration_id, refund_id, quantity, second)
    SELECT
      ${accountId}, ${mode}, ${meter}, ${refund.registrationId}, ${refund.id},
      -least(${refund.count}::bigint - part * ${maximumQuantity}, ${maximumQuantity}),
      ${refund.second}
    FROM generate_series(0, (${refund.count}::bigint - 1) / ${maximumQuantity}) AS part
  `);
};

/** The processor that bills a meter event, and as which customer. */
export type BillingTarget = Pick<StoredMeterEvent, "processor" | "customerId">;

const unsealedRow = z.strictObject({
  second: safeInteger,
  ids: z.array(z.string()),
  quantity: z.bigint(),
  held: z.boolean(),
  processor: processorColumn,
  customerId: z.string().nullable(),
});

/**
 * The stream's unsealed facts of the oldest second that has any, as far as they fit into one event, by the party that is
 * billed: new usage goes to the current one, what is taken back to the party that was billed for it. Apart from them
 * those that take back usage which the processor never accepted.
 * @param lastSecond later seconds are left alone
 */
export const listOldestUnsealedFacts = (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, meter }: UsageStream,
  lastSecond: number,
  current: BillingTarget,
): Promise<readonly Readonly<z.output<typeof unsealedRow>>[]> =>
  transaction.any(sql.prepared("list_oldest_unsealed_facts", unsealedRow)`
    WITH unsealed AS (
      SELECT
        fact.id,
        fact.second,
        fact.quantity,
        fact.quantity < 0 AND EXISTS (
          SELECT
          FROM usage_fact AS original
          JOIN meter_event ON meter_event.id = original.meter_event_id
          WHERE original.registration_id = fact.registration_id
            AND original.quantity > 0
            AND meter_event.state IN (${FAILED}, 'waived')
        ) AS held,
        coalesce(billed.processor, ${current.processor}) AS processor,
        CASE WHEN billed.processor IS NULL THEN ${current.customerId} ELSE billed.customer_id END AS customer_id
      FROM usage_fact AS fact
      LEFT JOIN LATERAL (
        SELECT meter_event.processor, meter_event.customer_id
        FROM usage_fact AS original
        JOIN meter_event ON meter_event.id = original.meter_event_id
        WHERE fact.quantity < 0
          AND original.registration_id = fact.registration_id
          AND original.quantity > 0
          AND meter_event.state IN ('delivered', 'void')
        ORDER BY original.id
        LIMIT 1
      ) AS billed ON true
      WHERE fact.account_id = ${accountId}
        AND fact.mode = ${mode}
        AND fact.meter = ${meter}
        AND fact.second = (
          SELECT second
          FROM usage_fact
          WHERE account_id = ${accountId}
            AND mode = ${mode}
            AND meter = ${meter}
            AND meter_event_id IS NULL
            AND second <= ${lastSecond}
          ORDER BY second
          LIMIT 1
        )
        AND fact.meter_event_id IS NULL
    ),
    summed AS (
      SELECT *, sum(quantity) OVER (PARTITION BY held, processor, customer_id ORDER BY id) AS running
      FROM unsealed
    ),
    fitting AS (
      -- All up to the first that does not fit: the sum of a choice among the later ones could be anything.
      SELECT
        *,
        bool_and(abs(running) <= ${MAXIMUM_QUANTITY}) OVER (
          PARTITION BY held, processor, customer_id ORDER BY id
        ) AS fits
      FROM summed
    )
    SELECT
      second,
      array_agg(id::text) AS ids,
      sum(quantity)::bigint AS quantity,
      held,
      processor,
      customer_id AS "customerId"
    FROM fitting
    WHERE fits
    GROUP BY second, held, processor, customer_id
    ORDER BY held DESC, processor, customer_id
  `);

/** Makes the facts of a failed event wait for another sealing. */
export const releaseFacts = async (
  transaction: DatabaseTransactionConnection,
  meterEventId: bigint,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE usage_fact
    SET meter_event_id = NULL
    WHERE meter_event_id = ${meterEventId}
  `);
};

/** Makes those refunds wait for another sealing that were held because an event with their registrations failed. */
export const releaseHeldRefunds = async (
  transaction: DatabaseTransactionConnection,
  failedEventId: bigint,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE usage_fact AS held
    SET meter_event_id = NULL
    FROM meter_event, usage_fact AS failed
    WHERE meter_event.id = held.meter_event_id
      AND meter_event.state = 'held'
      AND failed.meter_event_id = ${failedEventId}
      AND failed.registration_id = held.registration_id
  `);
};

const streamRow = z.strictObject({ ...streamColumns, second: z.bigint() });

/** A stream that has something to report, and its oldest unreported second. */
export type WaitingStream = UsageStream & { readonly second: number };

/**
 * Every stream with unsealed facts or an unfinished event. It steps from stream to stream through the index, so its
 * cost follows the number of such streams, not of facts.
 */
export const listWaitingStreams = async (
  db: CommonQueryMethods,
): Promise<readonly WaitingStream[]> => {
  const rows = await db.any(sql.type(streamRow)`
    WITH RECURSIVE unsealed AS (
      (
        SELECT account_id, mode, meter, second
        FROM usage_fact
        WHERE meter_event_id IS NULL
        ORDER BY account_id, mode, meter, second
        LIMIT 1
      )
      UNION ALL
      SELECT following.account_id, following.mode, following.meter, following.second
      FROM unsealed
      CROSS JOIN LATERAL (
        SELECT account_id, mode, meter, second
        FROM usage_fact
        WHERE meter_event_id IS NULL
          AND (account_id, mode, meter) > (unsealed.account_id, unsealed.mode, unsealed.meter)
        ORDER BY account_id, mode, meter, second
        LIMIT 1
      ) AS following
    )
    SELECT account_id AS "accountId", mode, meter, min(second) AS second
    FROM (
      SELECT account_id, mode, meter, second FROM unsealed
      UNION ALL
      SELECT account_id, mode, meter, second FROM meter_event WHERE state IN (${UNFINISHED})
    ) AS waiting
    GROUP BY account_id, mode, meter
    ORDER BY second
  `);
  return rows.map(({ accountId, mode, meter, second }) => ({
    accountId,
    mode,
    meter,
    second: Number(second),
  }));
};

/** Whether all that the registration's refunds take back is settled: sent, or nothing to send. */
export const areRefundsSettled = (
  db: CommonQueryMethods,
  registrationId: string,
): Promise<boolean> =>
  db.oneFirst(sql.type(z.strictObject({ settled: z.boolean() }))`
    SELECT NOT EXISTS (
      SELECT
      FROM usage_fact
      LEFT JOIN meter_event ON meter_event.id = usage_fact.meter_event_id
      WHERE usage_fact.registration_id = ${registrationId}
        AND usage_fact.refund_id IS NOT NULL
        AND coalesce(meter_event.state, 'unsealed') NOT IN ('delivered', 'void', 'held', 'waived')
    ) AS settled
  `);
