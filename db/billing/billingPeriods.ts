import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Kind } from "../../domain/accounts/accounts.ts";
import type { Period } from "../../domain/billing/billingCycle.ts";
import { sql } from "../sql.ts";

export type Subscription = {
  readonly accountId: string;
  readonly subscriptionId: string;
  readonly meter: Kind;
};

const periodRow = z.strictObject({ start: z.date(), end: z.date(), readAt: z.date() });

/** Returns the subscription's billing period as Stripe last reported it, and when that was. */
export const findBillingPeriod = (
  db: CommonQueryMethods,
  { accountId, subscriptionId, meter }: Subscription,
): Promise<Readonly<z.output<typeof periodRow>> | null> =>
  db.maybeOne(sql.type(periodRow)`
    SELECT starts_at AS start, ends_at AS "end", read_at AS "readAt"
    FROM billing_period
    WHERE account_id = ${accountId} AND meter = ${meter} AND subscription_id = ${subscriptionId}
  `);

/** Stores the period for the account and meter. It replaces a stored one, even if that is of another subscription. */
export const saveBillingPeriod = async (
  db: CommonQueryMethods,
  { accountId, subscriptionId, meter }: Subscription,
  { start, end }: Period,
  readAt: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO billing_period (account_id, meter, subscription_id, starts_at, ends_at, read_at)
    VALUES (
      ${accountId}, ${meter}, ${subscriptionId}, ${start.toISOString()}, ${end.toISOString()}, ${readAt.toISOString()}
    )
    ON CONFLICT (account_id, meter) DO UPDATE
    SET
      subscription_id = excluded.subscription_id,
      starts_at = excluded.starts_at,
      ends_at = excluded.ends_at,
      read_at = excluded.read_at
  `);
};
