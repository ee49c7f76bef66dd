import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { UsageStream } from "../../domain/billing/usage.ts";
import { MAXIMUM_QUANTITY } from "../../domain/billing/usage.ts";
import { processorColumn, safeInteger, streamColumns } from "../columns.ts";
import { sql } from "../sql.ts";
import { foldedWithSecond } from "./folding/foldedUsage.ts";
import { FAILED, UNFINISHED } from "./meterEvents.ts";
import type { StoredMeterEvent } from "./meterEvents.ts";

/** A constant rather than a parameter, so that prepared statements do not send it each time. */
export const maximumQuantity = sql.fragment`${sql.literalValue(String(MAXIMUM_QUANTITY))}::bigint`;

/** Records the usage that a refund takes back, at the registration's second. */
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

/** The processor that bills a meter event, and its customer there. */
export type BillingTarget = Pick<StoredMeterEvent, "processor" | "customerId">;

const unsealedRow = z.strictObject({
  place: safeInteger,
  second: safeInteger,
  ids: z.array(z.string()),
  quantity: z.bigint(),
  alreadyReported: z.bigint(),
  held: z.boolean(),
  processor: processorColumn,
  customerId: z.string().nullable(),
});

/** The summed facts of one future meter event. */
export type UnsealedPart = Omit<Readonly<z.output<typeof unsealedRow>>, "place">;

/**
 * Sums the unsealed facts of each stream's oldest second that has any, in groups that each become one meter event. New
 * usage is billed to the current target, a refund to the target that was billed for the registration, a correction to its
 * own. Refunds of usage that the processor does not have are `held`. Units that the processor already has are not in a
 * group's quantity. A group takes only as many facts as fit into one event.
 * @param streams the streams with the current targets of their usage
 * @param seconds the first and the last second; others are skipped
 * @returns the groups of each stream in the given order
 */
export const listOldestUnsealedFacts = async (
  transaction: DatabaseTransactionConnection,
  streams: readonly (UsageStream & { readonly current: BillingTarget })[],
  seconds: { readonly first: number; readonly last: number },
): Promise<readonly (readonly UnsealedPart[])[]> => {
  const rows = await transaction.any(sql.type(unsealedRow)`
    WITH unsealed AS (
      SELECT
        stream.place,
        fact.id,
        fact.second,
        fact.quantity - coalesce(fact.already_reported, 0) AS quantity,
        coalesce(fact.already_reported, 0) AS already_reported,
        failed.registration_id IS NOT NULL AS held,
        coalesce(correction.processor, billed.processor, folded.processor, stream.processor) AS processor,
        CASE
          WHEN correction.id IS NOT NULL THEN correction.customer_id
          WHEN billed.processor IS NOT NULL THEN billed.customer_id
          WHEN folded.processor IS NOT NULL THEN folded.customer_id
          ELSE stream.customer_id
        END AS customer_id
      FROM ${sql.unnest(
        streams.map(({ accountId, mode, meter, current }, place) => [
          place,
          accountId,
          mode,
          meter,
          current.processor,
          current.customerId,
        ]),
        ["int8", "uuid", "text", "text", "text", "text"],
      )} AS stream (place, account_id, mode, meter, processor, customer_id)
      -- The limits and offsets keep the planner from reading whole tables: it goes through the indexes, stream by stream.
      CROSS JOIN LATERAL (
        SELECT second
        FROM usage_fact
        WHERE account_id = stream.account_id
          AND mode = stream.mode
          AND meter = stream.meter
          AND meter_event_id IS NULL
          AND second >= ${seconds.first}
          AND second <= ${seconds.last}
        ORDER BY second
        LIMIT 1
      ) AS oldest
      CROSS JOIN LATERAL (
        SELECT *
        FROM usage_fact
        WHERE account_id = stream.account_id
          AND mode = stream.mode
          AND meter = stream.meter
          AND meter_event_id IS NULL
          AND second = oldest.second
        OFFSET 0
      ) AS fact
      LEFT JOIN usage_correction AS correction ON correction.id = fact.correction_id
      LEFT JOIN LATERAL (
        SELECT original.registration_id
        FROM usage_fact AS original
        JOIN meter_event ON meter_event.id = original.meter_event_id
        WHERE fact.quantity < 0
          AND original.registration_id = fact.registration_id
          AND original.quantity > 0
          AND meter_event.state IN (${FAILED}, 'waived')
        LIMIT 1
      ) AS failed ON true
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
      LEFT JOIN LATERAL (
        SELECT folded_usage.processor, nullif(folded_usage.customer_id, '') AS customer_id
        FROM folded_usage
        WHERE fact.quantity < 0
          AND fact.registration_id IS NOT NULL
          AND billed.processor IS NULL
          AND ${foldedWithSecond({
            accountId: sql.fragment`stream.account_id`,
            mode: sql.fragment`stream.mode`,
            meter: sql.fragment`stream.meter`,
            second: sql.fragment`fact.second`,
          })}
        LIMIT 1
      ) AS folded ON true
    ),
    summed AS (
      SELECT *, sum(quantity) OVER (PARTITION BY place, held, processor, customer_id ORDER BY id) AS running
      FROM unsealed
    ),
    fitting AS (
      -- Stop at the first fact that does not fit. Without the skipped facts, later running sums would be wrong.
      SELECT
        *,
        bool_and(abs(running) <= ${maximumQuantity}) OVER (
          PARTITION BY place, held, processor, customer_id ORDER BY id
        ) AS fits
      FROM summed
    )
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
    ORDER BY place, held DESC, processor, customer_id
  `);
  const parts: UnsealedPart[][] = streams.map(() => []);
  for (const { place, ...part } of rows) {
    parts[place]?.push(part);
  }
  return parts;
};

/**
 * Makes the facts of an event available for another sealing.
 * @param acceptedQuantity the units that the processor has of the event; they are allotted to its facts in their order, so
 * that they are not sent again
 */
export const releaseFacts = async (
  transaction: DatabaseTransactionConnection,
  meterEventId: bigint,
  acceptedQuantity: number,
): Promise<void> => {
  const sign = Math.sign(acceptedQuantity);
  await transaction.query(sql.typeAlias("void")`
    WITH fact AS (
      SELECT
        id,
        greatest(0, ${sign}::bigint * (quantity - coalesce(already_reported, 0))) AS unreported
      FROM usage_fact
      WHERE meter_event_id = ${meterEventId}
    ),
    allotted AS (
      SELECT
        id,
        greatest(
          0,
          least(unreported, ${Math.abs(acceptedQuantity)}::bigint - (sum(unreported) OVER (ORDER BY id) - unreported))
        )::bigint AS units
      FROM fact
    )
    UPDATE usage_fact
    SET
      meter_event_id = NULL,
      already_reported = nullif(coalesce(already_reported, 0) + ${sign}::bigint * allotted.units, 0)
    FROM allotted
    WHERE usage_fact.id = allotted.id
  `);
};

/** Returns whether an event has its facts. One that the processor has in part has released them to a later event. */
export const hasFacts = (db: CommonQueryMethods, meterEventId: bigint): Promise<boolean> =>
  db.oneFirst(sql.type(z.strictObject({ exist: z.boolean() }))`
    SELECT EXISTS (SELECT FROM usage_fact WHERE meter_event_id = ${meterEventId}) AS exist
  `);

/** Makes the refunds that are held because of a failed event available for another sealing. */
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

/** Lets the dispatcher start the workflows of the refunds in a meter event again. */
export const redispatchRefunds = async (
  transaction: DatabaseTransactionConnection,
  meterEventId: bigint,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE refund
    SET dispatched_at = NULL
    FROM usage_fact
    WHERE usage_fact.refund_id = refund.id
      AND usage_fact.meter_event_id = ${meterEventId}
  `);
};

const unsealedUsageRow = z.strictObject({
  ...streamColumns,
  accountName: z.string(),
  facts: safeInteger,
  quantity: safeInteger,
  oldestSecond: safeInteger,
});

/** The facts of a stream that are in no meter event yet. */
export type UnsealedUsage = Readonly<z.output<typeof unsealedUsageRow>>;

export const listUnsealedUsage = (
  db: CommonQueryMethods,
  { accountId, limit }: { readonly accountId: string | null; readonly limit: number },
): Promise<readonly UnsealedUsage[]> =>
  db.any(sql.type(unsealedUsageRow)`
    SELECT
      unsealed.account_id AS "accountId",
      account.name AS "accountName",
      unsealed.mode,
      unsealed.meter,
      unsealed.facts,
      unsealed.quantity,
      unsealed.oldest_second AS "oldestSecond"
    FROM (
      SELECT
        account_id, mode, meter, count(*) AS facts,
        sum(quantity - coalesce(already_reported, 0))::bigint AS quantity, min(second) AS oldest_second
      FROM usage_fact
      WHERE meter_event_id IS NULL
        AND ${accountId === null ? sql.fragment`true` : sql.fragment`account_id = ${accountId}`}
      GROUP BY account_id, mode, meter
    ) AS unsealed
    JOIN account ON account.id = unsealed.account_id
    ORDER BY unsealed.oldest_second
    LIMIT ${limit}
  `);

const unsealedQuantityRow = z.strictObject({
  ...streamColumns,
  quantity: z.bigint().transform(Number),
});

/** Returns the units of each stream that are neither sealed nor at the processor, in a half-open span of unix seconds. */
export const sumUnsealedUsage = (
  db: CommonQueryMethods,
  span: { readonly start: number; readonly end: number },
  accountId: string | null,
): Promise<readonly Readonly<z.output<typeof unsealedQuantityRow>>[]> =>
  db.any(sql.type(unsealedQuantityRow)`
    SELECT
      account_id AS "accountId", mode, meter, sum(quantity - coalesce(already_reported, 0))::bigint AS quantity
    FROM usage_fact
    WHERE meter_event_id IS NULL
      AND second >= ${span.start}
      AND second < ${span.end}
      AND (${accountId}::uuid IS NULL OR account_id = ${accountId})
    GROUP BY account_id, mode, meter
  `);

const factRow = z.strictObject({
  id: safeInteger,
  refundId: z.uuid().nullable(),
  quantity: safeInteger,
  second: safeInteger,
  meterEventId: safeInteger.nullable(),
});

export type UsageFact = Readonly<z.output<typeof factRow>>;

export const listFactsOfRegistration = (
  db: CommonQueryMethods,
  registrationId: string,
): Promise<readonly UsageFact[]> =>
  db.any(sql.type(factRow)`
    SELECT
      id,
      refund_id AS "refundId",
      quantity,
      second,
      meter_event_id AS "meterEventId"
    FROM usage_fact
    WHERE registration_id = ${registrationId}
    ORDER BY id
  `);

const oldestRow = z.strictObject({ second: z.bigint().transform(Number).nullable() });

/** Returns the unix second of the oldest usage that is not reported yet, or null. */
export const findOldestUnreportedSecond = (db: CommonQueryMethods): Promise<number | null> =>
  db.oneFirst(sql.type(oldestRow)`
    SELECT least(
      (SELECT min(second) FROM usage_fact WHERE meter_event_id IS NULL),
      (SELECT min(second) FROM meter_event WHERE state IN (${UNFINISHED}))
    ) AS second
  `);

const signedRow = z.strictObject({
  ids: z.array(z.string()),
  quantity: z.bigint(),
  alreadyReported: z.bigint(),
});

/** Sums facts apart by sign, usage first: the processor may have the usage without its refund. */
export const sumFactsBySign = (
  transaction: DatabaseTransactionConnection,
  factIds: readonly string[],
): Promise<readonly Readonly<z.output<typeof signedRow>>[]> =>
  transaction.any(sql.type(signedRow)`
    SELECT
      array_agg(id::text) AS ids,
      sum(quantity - coalesce(already_reported, 0))::bigint AS quantity,
      sum(coalesce(already_reported, 0))::bigint AS "alreadyReported"
    FROM usage_fact
    WHERE id = ANY(${sql.array([...factIds], "int8")})
    GROUP BY quantity > 0
    ORDER BY quantity > 0 DESC
  `);
