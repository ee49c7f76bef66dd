import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { SUBSCRIPTION_POLICIES } from "../../accounts/accounts.rules.ts";
import { KINDS } from "../../records/owner.rules.ts";
import { storedSubscription } from "../subscriptions.rules.ts";
import { kindColumn } from "../../records/columns.sql.ts";
import { sql, timestamp, values } from "../../../db/sql.ts";

/**
 * Stores what Stripe returned of an account's subscription. It is dropped if the account has another subscription now, or what
 * was read later is stored: reads can overlap. A program that does not know the prices of donations leaves what another has
 * found out about their items.
 * @returns whether it was stored
 */
export const saveSubscriptionState = async (
  db: CommonQueryMethods,
  { accountId, subscriptionId }: { readonly accountId: string; readonly subscriptionId: string },
  state: z.output<typeof storedSubscription>,
  readAt: Date,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO stripe_subscription (account_id, subscription_id, state, read_at)
    SELECT id, ${subscriptionId}, ${JSON.stringify(state)}::jsonb, ${timestamp(readAt)}
    FROM account
    WHERE id = ${accountId} AND stripe_subscription_id = ${subscriptionId}
    ON CONFLICT (account_id) DO UPDATE
    SET
      subscription_id = excluded.subscription_id,
      state = excluded.state || CASE
        WHEN excluded.state -> 'hasDonationItems' = 'null'
          AND stripe_subscription.subscription_id = excluded.subscription_id
        THEN jsonb_build_object('hasDonationItems', stripe_subscription.state -> 'hasDonationItems')
        ELSE '{}'
      END,
      read_at = excluded.read_at
    WHERE stripe_subscription.subscription_id <> excluded.subscription_id
      OR stripe_subscription.read_at <= ${timestamp(readAt)}
  `);
  return rowCount > 0;
};

/** The kinds that meet a condition on `used.kind`, and for which an account has live usage. */
const usedKindsIf = (condition: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  (
    SELECT coalesce(array_agg(used.kind ORDER BY place), '{}')
    FROM ${values(KINDS)} WITH ORDINALITY AS used (kind, place)
    WHERE ${condition} AND (
      EXISTS (
        SELECT
        FROM meter_event
        WHERE (meter_event.account_id, meter_event.mode, meter_event.kind) = (account.id, 'live', used.kind)
          -- Another program may have reported its units.
          AND meter_event.failure IS DISTINCT FROM 'difference'
      )
      OR EXISTS (
        SELECT
        FROM usage_fact
        WHERE (usage_fact.account_id, usage_fact.mode, usage_fact.kind) = (account.id, 'live', used.kind)
          AND usage_fact.meter_event_id IS NULL
      )
    )
  )
`;

const unbilledRow = z.strictObject({ name: z.string(), hasLiveUsage: z.boolean() });

export const listOrganizationsWithoutCustomer = (db: CommonQueryMethods) =>
  db.any(sql.type(unbilledRow)`
    SELECT name, cardinality(${usedKindsIf(sql.fragment`true`)}) > 0 AS "hasLiveUsage"
    FROM account
    WHERE type = 'organization' AND stripe_customer_id IS NULL
    ORDER BY created_at, id
  `);

const knownRow = z
  .strictObject({
    accountId: z.uuid(),
    accountName: z.string(),
    readAt: z.date(),
    policy: z.enum(SUBSCRIPTION_POLICIES),
    state: storedSubscription,
    /** The kinds without a price for which the organization has live usage. */
    usedKinds: z.array(kindColumn),
    /** Whether the organization subscribed to donations with this subscription, and their items are gone. */
    lostDonationItems: z.boolean(),
  })
  .transform(({ state, ...row }) => ({ ...row, ...state }));

/** An organization's subscription as Stripe last returned it. */
export type KnownSubscription = Readonly<z.output<typeof knownRow>>;

/** Lists the current subscriptions of all organizations (null) or of one, as far as they have been read. */
export const listWatchedSubscriptions = (db: CommonQueryMethods, accountId: string | null) =>
  db.any(sql.type(knownRow)`
    SELECT
      account.id AS "accountId",
      account.name AS "accountName",
      stripe_subscription.read_at AS "readAt",
      account.subscription_policy AS policy,
      stripe_subscription.state,
      -- Most subscriptions have a price for every kind, so that this looks nothing up.
      ${usedKindsIf(sql.fragment`NOT stripe_subscription.state -> 'meteredKinds' ? used.kind`)} AS "usedKinds",
      (
        stripe_subscription.state -> 'hasDonationItems' = 'false' AND EXISTS (
          SELECT
          FROM donor
          WHERE donor.account_id = account.id
            AND donor.mode = 'live'
            AND donor.subscription_id = stripe_subscription.subscription_id
            AND donor.active_since IS NOT NULL
            AND donor.verified_at <= stripe_subscription.read_at
        )
      ) AS "lostDonationItems"
    FROM stripe_subscription
    JOIN account
      ON account.id = stripe_subscription.account_id
      AND account.stripe_subscription_id = stripe_subscription.subscription_id
    WHERE ${accountId}::uuid IS NULL OR account.id = ${accountId}
    ORDER BY account.created_at, account.id
  `);

/** Returns the subscription of an account as it was last read; null without one, or before it was read. */
export const findKnownSubscription = async (db: CommonQueryMethods, accountId: string) =>
  (await listWatchedSubscriptions(db, accountId))[0] ?? null;

const idRow = z.strictObject({ id: z.uuid() });

/** Lists the accounts that have one of Stripe's subscriptions or customers now. */
export const listAccountsOfStripe = (db: CommonQueryMethods, objectIds: readonly string[]) => {
  const ids = sql.array([...objectIds], "text");
  return db.anyFirst(sql.type(idRow)`
    SELECT id FROM account WHERE stripe_subscription_id = ANY(${ids}) OR stripe_customer_id = ANY(${ids})
  `);
};
