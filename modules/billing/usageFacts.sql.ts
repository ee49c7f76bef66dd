import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Span } from "./usage.rules.ts";
import { MAXIMUM_QUANTITY } from "./usage.rules.ts";
import { ownerColumns } from "../records/columns.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { noteBeforeError, UNFINISHED } from "./meterEvents.sql.ts";
import type { StoredMeterEvent } from "./meterEvents.sql.ts";
import { factsOfRegistration, shareRegistrations } from "./registrationFacts.sql.ts";

/** A constant rather than a parameter, so that prepared statements do not send it each time. */
export const maximumQuantity = sql.fragment`${sql.literalValue(String(MAXIMUM_QUANTITY))}::bigint`;

/** The processor that bills a meter event, and its customer there. */
export type BillingTarget = Pick<StoredMeterEvent, "processor" | "customerId">;

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
  db.exists(sql.typeAlias("void")`
    SELECT FROM usage_fact WHERE meter_event_id = ${meterEventId}
  `);

/**
 * Makes the refunds that are held because of a failed event available for another sealing, and lets the dispatcher start
 * their workflows again: those may have ended, because a held refund is settled. Their events keep the units of their other
 * refunds; an event without any is superseded. Must run under the stream's lock.
 * @param waived which refunds that were waived as well, and that no document replaces, are released when a waiver of the usage
 * is reversed. If the processor's sums have decided how much of the usage it has, `all`: the sums contain those that it has.
 * Otherwise those that were certainly `neverSent`; others need their own retry, which checks the sums.
 */
export const releaseHeldRefunds = async (
  transaction: DatabaseTransactionConnection,
  failedEventId: bigint,
  waived: "none" | "neverSent" | "all" = "none",
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH held AS MATERIALIZED (
      SELECT fact.id, fact.refund_id, fact.meter_event_id
      FROM usage_fact AS failed
      -- The offsets and arrays make these look-ups, fact by fact, also where the statistics know of no refunds.
      CROSS JOIN LATERAL (
        SELECT id, refund_id, meter_event_id
        FROM usage_fact AS refunded
        WHERE ${shareRegistrations("refunded", "failed")} AND refunded.refund_id IS NOT NULL
        OFFSET 0
      ) AS fact
      WHERE failed.meter_event_id = ${failedEventId}
        AND failed.refund_id IS NULL
        AND (
          SELECT
            state = 'held'
            OR (
              ${waived !== "none"}
              AND state = 'waived'
              AND settlement_reference IS NULL
              AND (${waived === "all"} OR (attempts = 0 AND NOT outcome_unknown))
            )
          FROM meter_event
          WHERE meter_event.id = fact.meter_event_id
        )
    ),
    released AS (
      UPDATE usage_fact
      SET meter_event_id = NULL
      WHERE id = ANY(ARRAY(SELECT id FROM held))
    ),
    reduced AS (
      UPDATE meter_event
      SET
        state = CASE WHEN rest.quantity IS NULL THEN 'superseded' ELSE state END,
        quantity = coalesce(rest.quantity, meter_event.quantity),
        already_reported = coalesce(rest.already_reported, meter_event.already_reported),
        last_error = ${noteBeforeError(`refunds released because of event ${failedEventId}`)}
      FROM (SELECT DISTINCT meter_event_id AS id FROM held) AS event
      CROSS JOIN LATERAL (
        SELECT
          sum(quantity - coalesce(already_reported, 0))::bigint AS quantity,
          sum(coalesce(already_reported, 0))::bigint AS already_reported
        FROM (SELECT * FROM usage_fact WHERE meter_event_id = event.id OFFSET 0) AS fact
        WHERE fact.id NOT IN (SELECT id FROM held)
      ) AS rest
      WHERE meter_event.id = event.id AND meter_event.id = ANY(ARRAY(SELECT meter_event_id FROM held))
    )
    UPDATE refund
    SET dispatched_at = NULL
    WHERE id = ANY(ARRAY(SELECT refund_id FROM held))
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
  ...ownerColumns,
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
      unsealed.kind,
      unsealed.facts,
      unsealed.quantity,
      unsealed.oldest_second AS "oldestSecond"
    FROM (
      SELECT
        account_id, mode, kind, count(*) AS facts,
        sum(quantity - coalesce(already_reported, 0))::bigint AS quantity, min(second) AS oldest_second
      FROM usage_fact
      WHERE meter_event_id IS NULL
        AND ${accountId === null ? sql.fragment`true` : sql.fragment`account_id = ${accountId}`}
      GROUP BY account_id, mode, kind
    ) AS unsealed
    JOIN account ON account.id = unsealed.account_id
    ORDER BY unsealed.oldest_second
    LIMIT ${limit}
  `);

const unsealedQuantityRow = z.strictObject({
  ...ownerColumns,
  quantity: z.bigint().transform(Number),
});

export type UnsealedQuantity = Readonly<z.output<typeof unsealedQuantityRow>>;

/**
 * Returns the units of each stream that are neither sealed nor at the processor, in a half-open span of unix seconds.
 * @param accountIds null for all
 */
export const sumUnsealedUsage = (
  db: CommonQueryMethods,
  span: Span,
  accountIds: readonly string[] | null,
): Promise<readonly UnsealedQuantity[]> =>
  db.any(sql.type(unsealedQuantityRow)`
    SELECT
      account_id AS "accountId", mode, kind, sum(quantity - coalesce(already_reported, 0))::bigint AS quantity
    FROM usage_fact
    WHERE meter_event_id IS NULL
      AND second >= ${span.start}
      AND second < ${span.end}
      AND ${accountIds === null ? sql.fragment`true` : sql.fragment`account_id = ANY(${sql.array(accountIds, "uuid")})`}
    GROUP BY account_id, mode, kind
  `);

const factRow = z.strictObject({
  id: safeInteger,
  refundId: z.uuid().nullable(),
  quantity: safeInteger,
  second: safeInteger,
  meterEventId: safeInteger.nullable(),
});

export type UsageFact = Readonly<z.output<typeof factRow>>;

/**
 * Lists the facts of a registration and its refunds, with its own units of facts that others share. Very many units are in
 * several facts, of which it has the first.
 */
export const listFactsOfRegistration = (
  db: CommonQueryMethods,
  registrationId: string,
): Promise<readonly UsageFact[]> =>
  db.any(sql.type(factRow)`
    SELECT
      usage_fact.id,
      usage_fact.refund_id AS "refundId",
      CASE
        WHEN usage_fact.refund_id IS NOT NULL THEN usage_fact.quantity
        ELSE greatest(0, least(
          usage_fact.quantity,
          registration.count + usage_fact.quantity
            - sum(usage_fact.quantity) OVER (PARTITION BY usage_fact.refund_id ORDER BY usage_fact.id)
        ))::bigint
      END AS quantity,
      usage_fact.second,
      usage_fact.meter_event_id AS "meterEventId"
    FROM registration
    CROSS JOIN LATERAL ${factsOfRegistration} AS usage_fact
    WHERE registration.id = ${registrationId}
    ORDER BY usage_fact.id
  `);

const oldestRow = z.strictObject({ second: safeInteger.nullable() });

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
