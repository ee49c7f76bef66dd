import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { PROCESSORS } from "../billing/usage.rules.ts";
import { ACTIVE_STATUSES } from "../accounts/accounts.rules.ts";
import { accountColumns, accountRow } from "../accounts/accounts.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { knownKeys } from "../records/idempotencyKeys.sql.ts";

const donorRow = accountRow.extend({
  /** Who carries the donation items of the account in one mode; null without a subscription. */
  processor: z.enum(PROCESSORS).nullable(),
  subscriptionId: z.string().nullable(),
  activeSince: z.date().nullable(),
  /** Whether Stripe has reported since the items were seen that the subscription is not active, or has lost them. */
  hasEnded: z.boolean(),
  /** Those of the given idempotency keys that donations have. */
  knownKeys: z.array(z.string()),
  count: safeInteger,
  totalCents: safeInteger,
});

/** An account, and what decides whether it may make donations. */
export type Donor = Readonly<z.output<typeof donorRow>>;

/** The processor and subscription that carry the items; after a change of either they must be added again. */
export type Carrier = {
  readonly processor: NonNullable<Donor["processor"]>;
  readonly subscriptionId: string | null;
};

export const readDonor = (db: CommonQueryMethods, owner: AccountMode, keys: readonly string[]) =>
  db.one(sql.prepared("read_donor", donorRow)`
    SELECT
      ${accountColumns},
      subscription.processor,
      subscription.subscription_id AS "subscriptionId",
      subscription.active_since AS "activeSince",
      EXISTS (
        SELECT
        FROM stripe_subscription AS reported
        WHERE reported.account_id = subscription.account_id
          AND reported.subscription_id = subscription.subscription_id
          AND reported.read_at >= subscription.verified_at
          AND (
            reported.state ->> 'status' <> ALL(${sql.array([...ACTIVE_STATUSES], "text")})
            OR reported.state -> 'hasDonationItems' = 'false'
          )
      ) AS "hasEnded",
      ARRAY(SELECT known.key FROM ${knownKeys(owner, "donate", keys)}) AS "knownKeys",
      coalesce(subscription.count, 0) AS count,
      coalesce(subscription.amount_cents, 0) AS "totalCents"
    FROM account
    LEFT JOIN donor AS subscription ON subscription.account_id = account.id AND subscription.mode = ${owner.mode}
    WHERE account.id = ${owner.accountId}
  `);

/** Records when the processor was seen to have the items, unless the account has another subscription by now. */
export const recordProvisioning = async (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
  { processor, subscriptionId }: Carrier,
  verifiedAt: Date,
) => {
  const verified = timestamp(verifiedAt);
  await db.query(sql.typeAlias("void")`
    INSERT INTO donor AS known (account_id, mode, processor, subscription_id, active_since, verified_at)
    SELECT id, ${mode}, ${processor}, ${subscriptionId}, ${verified}, ${verified}
    FROM account
    WHERE id = ${accountId} AND (${subscriptionId}::text IS NULL OR stripe_subscription_id = ${subscriptionId})
    ON CONFLICT (account_id, mode) DO UPDATE
    SET
      processor = excluded.processor,
      subscription_id = excluded.subscription_id,
      active_since = CASE
        WHEN (known.processor, known.subscription_id) IS NOT DISTINCT FROM (excluded.processor, excluded.subscription_id)
        THEN known.active_since
        ELSE excluded.active_since
      END,
      verified_at = excluded.verified_at
  `);
};
