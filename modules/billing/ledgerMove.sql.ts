import type { DatabaseTransactionConnection, FragmentSqlToken, CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { ofStream } from "./streams.sql.ts";

/** Live events of a stream that the built-in ledger has, from a unix second on. */
type LedgerEvents = Pick<Owner, "accountId" | "kind"> & { readonly fromSecond: number };

const isAmong = ({ fromSecond, ...stream }: LedgerEvents): FragmentSqlToken => sql.fragment`
  ${ofStream("meter_event", { ...stream, mode: "live" })}
  AND second >= ${fromSecond}
  AND processor = 'ledger'
  AND state = 'delivered'
`;

const countsRow = z.strictObject({
  events: z.int(),
  quantity: z.bigint().transform(Number),
  /** Those from before a time. */
  ended: z.int(),
});

export const countLedgerEvents = (
  db: CommonQueryMethods,
  events: LedgerEvents,
  endedBefore: Date | null,
): Promise<Readonly<z.output<typeof countsRow>>> =>
  db.one(sql.type(countsRow)`
    SELECT
      count(*)::integer AS events,
      coalesce(sum(quantity), 0)::bigint AS quantity,
      count(*) FILTER (WHERE to_timestamp(second) < ${timestamp(endedBefore)})::integer AS ended
    FROM meter_event
    WHERE ${isAmong(events)} AND quantity <> 0
  `);

const movedRow = z.strictObject({
  events: z.int(),
  /** The second of the last one, from which the next call continues; null if there was none. */
  lastSecond: safeInteger.nullable(),
});

/**
 * Lets the first of the events be sent to a Stripe customer instead. Must run under the stream's lock.
 * @param askingSince if not null, Stripe is asked first: a history that was lost may have moved them before
 */
export const moveLedgerEvents = (
  transaction: DatabaseTransactionConnection,
  events: LedgerEvents,
  {
    customerId,
    askingSince,
    limit,
  }: {
    readonly customerId: string;
    readonly askingSince: Date | null;
    readonly limit: number;
  },
): Promise<Readonly<z.output<typeof movedRow>>> =>
  transaction.one(sql.type(movedRow)`
    WITH moved AS (
      UPDATE meter_event
      SET
        processor = 'stripe',
        customer_id = ${customerId},
        -- Units that add up to zero need not be sent.
        state = CASE WHEN quantity = 0 THEN 'delivered' ELSE 'pending' END,
        asking_since = CASE WHEN quantity <> 0 THEN ${timestamp(askingSince)} END,
        may_be_delivered = quantity <> 0 AND ${askingSince !== null},
        settled_at = CASE WHEN quantity = 0 THEN settled_at END
      WHERE id = ANY(ARRAY(
        SELECT id
        FROM meter_event
        WHERE ${isAmong(events)}
        ORDER BY second, sequence
        LIMIT ${limit}
      ))
      RETURNING second
    )
    SELECT count(*)::integer AS events, max(second) AS "lastSecond"
    FROM moved
  `);
