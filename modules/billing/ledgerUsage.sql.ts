import type { DatabaseTransactionConnection, FragmentSqlToken, CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { sql, timestamp } from "../../db/sql.ts";
import { ofStream } from "./streams.sql.ts";

/** Events of a stream that the built-in ledger has, from a unix second on. */
type LedgerEvents = Owner & { readonly fromSecond: number };

const isAmong = ({ fromSecond, ...stream }: LedgerEvents): FragmentSqlToken => sql.fragment`
  ${ofStream("meter_event", stream)}
  AND second >= ${fromSecond}
  AND processor = 'ledger'
  AND state = 'delivered'
`;

const countsRow = z.strictObject({ events: z.int(), quantity: z.bigint().transform(Number) });

export const countLedgerEvents = (
  db: CommonQueryMethods,
  events: LedgerEvents,
): Promise<Readonly<z.output<typeof countsRow>>> =>
  db.one(sql.type(countsRow)`
    SELECT count(*)::integer AS events, coalesce(sum(quantity), 0)::bigint AS quantity
    FROM meter_event
    WHERE ${isAmong(events)} AND quantity <> 0
  `);

/**
 * Lets the events be sent to a Stripe customer instead. Must run under the stream's lock.
 * @param askingSince if not null, Stripe is asked first: a history that was lost may have moved them before
 */
export const moveLedgerEvents = async (
  transaction: DatabaseTransactionConnection,
  events: LedgerEvents,
  { customerId, askingSince }: { readonly customerId: string; readonly askingSince: Date | null },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      processor = 'stripe',
      customer_id = ${customerId},
      -- Units that add up to zero need not be sent.
      state = CASE WHEN quantity = 0 THEN 'delivered' ELSE 'pending' END,
      asking_since = CASE WHEN quantity <> 0 THEN ${timestamp(askingSince)} END,
      may_be_delivered = quantity <> 0 AND ${askingSince !== null},
      settled_at = CASE WHEN quantity = 0 THEN settled_at END
    WHERE ${isAmong(events)}
  `);
};

/** Returns whether the built-in ledger has ever had live usage. */
export const hasLiveLedgerUsage = (db: CommonQueryMethods): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM meter_event WHERE mode = 'live' AND processor = 'ledger' AND state = 'delivered'
  `);
