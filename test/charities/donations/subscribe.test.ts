import { sql } from "../../../db/sql.ts";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listWatchedSubscriptions } from "../../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { readDonor } from "../../../modules/charities/donationSubscriptions.sql.ts";
import { readDonations } from "../../../cli/commands/orgs.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { OutageError } from "../../../runtime/errors.rules.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { refreshSubscription } from "../../../modules/billing/processorEvents/readSubscription.ts";
import {
  subscribeToDonations,
  subscriptionStateOf,
} from "../../../modules/charities/subscribeToDonations.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { startDonationApi } from "./donationSetup.ts";

const test = testWithDatabase();

const stage = async (
  t: DatabaseTest,
  { withPrices = true }: { readonly withPrices?: boolean } = {},
) => {
  const { db } = t.context;
  const double = await startStripeDouble(t);
  const { control } = double;
  const { customerId, subscriptionId } = control.addSubscriber({});
  const flat = control.addPrice({});
  const metered = control.addPrice({ kind: "tree" });
  const billing = createBilling({
    db,
    stripe: connectStripe({
      ...double.stripe,
      // A busy machine must not look like a silent processor.
      timeoutMs: 3000,
      donationPrices: withPrices ? { flat, metered } : null,
    }),
  });
  const { call } = await startStandaloneApi(t, { db, billing });
  const stripe = { stripeCustomerId: customerId, stripeSubscriptionId: subscriptionId };
  const organization = await createTestOrganization(db, stripe);
  const items = () => control.pricesOf({ subscriptionId });
  const before = items();
  return {
    double,
    accountId: organization.id,
    customerId,
    subscriptionId,
    flat,
    metered,
    subscribe: (mode: "live" | "test" = "live") =>
      call("POST", "/charities/subscribe", {
        key: mode === "live" ? organization.apiKeyProd : organization.apiKeyTest,
      }),
    donate: () =>
      call("POST", "/charities/donate", {
        key: organization.apiKeyProd,
        body: { amount_cents: 100, ein: "530196605" },
      }),
    /** Reads the subscription at Stripe, as a worker does after a webhook. */
    refresh: () =>
      refreshSubscription(
        { db, clock: systemClock, billing },
        organization.id,
        AbortSignal.timeout(10_000),
      ),
    /** Returns what `org show` prints of the live donation subscription. */
    shown: async () => {
      const [live] = await readDonations({ db, billing, clock: systemClock }, organization.id);
      return live;
    },
    added: () => items().filter((price) => !before.includes(price)),
  };
};

test("subscribing, by however many calls, adds both items once and enables live donations", async (t) => {
  const { subscribe, donate, added, flat, metered, double } = await stage(t);
  t.is((await donate()).status, 400);

  const responses = await Promise.all(Array.from({ length: 20 }, () => subscribe()));
  responses.push(await subscribe());

  for (const { status, body } of responses) {
    t.is(status, 200);
    t.deepEqual(body, { success: true, message: "the donation subscription is active" });
  }
  t.deepEqual(added(), [flat, metered]);
  t.is((await donate()).status, 200);
  t.deepEqual(double.control.problems(), []);
});

const FAULTS: readonly (readonly [string, Parameters<StripeDouble["control"]["addFault"]>[0]])[] = [
  ["stores a 500 under the idempotency key", { kind: "server_error_saved" }],
  ["never responds", { kind: "hang" }],
  ["closes the connection", { kind: "drop" }],
  ["fails when the subscription is read", { kind: "server_error", method: "GET" }],
];
for (const [title, fault] of FAULTS) {
  test(`a processor that ${title} is a 500 that adds nothing`, async (t) => {
    const { subscribe, donate, added, double, subscriptionId, flat, metered } = await stage(t);
    const path = `/v1/subscriptions/${subscriptionId}`;
    double.control.addFault({ path, ...fault });

    const failed = await subscribe();

    t.is(failed.status, 500);
    const error = "the payment processor could not provision the donation subscription";
    t.deepEqual(failed.body, { error });
    t.deepEqual(added(), []);
    t.is((await donate()).status, 400, "the subscription is not active");
    t.is((await subscribe()).status, 200, "the retry is a new attempt");
    t.deepEqual(added(), [flat, metered]);
    double.control.addFault({ path, ...fault, method: "GET" });
    await subscribe();
    t.is((await donate()).status, 200, "a later failure leaves the subscription active");
  });
}

test("an update whose response is lost counts if the items are there", async (t) => {
  const { subscribe, added, double, subscriptionId, flat, metered } = await stage(t);
  const path = `/v1/subscriptions/${subscriptionId}`;
  double.control.addFault({ path, kind: "drop", applied: true });
  t.is((await subscribe()).status, 200);
  t.deepEqual(added(), [flat, metered]);
});

test("a canceled subscription, or missing donation prices in the settings, are a 500, and no subscription a 400", async (t) => {
  const { subscribe, double, subscriptionId, accountId } = await stage(t);
  double.control.cancel({ subscriptionId, when: "now_without_invoice" });
  t.is((await subscribe()).status, 500);
  const withoutPrices = await stage(t, { withPrices: false });
  t.is((await withoutPrices.subscribe()).status, 500);
  t.deepEqual(withoutPrices.added(), []);
  await updateAccount(t.context.db, accountId, { stripeSubscriptionId: null });
  const error = "the organization has no Stripe subscription to add donations to";
  t.like(await subscribe(), { status: 400, body: { error } });
});

test("after a change of its Stripe subscription an organization must subscribe again", async (t) => {
  const { subscribe, donate, double, accountId, customerId, subscriptionId, shown } =
    await stage(t);
  await subscribe();
  t.is((await donate()).status, 200);
  const { subscriptionId: other } = double.control.addSubscriber({ customerId });
  await updateAccount(t.context.db, accountId, { stripeSubscriptionId: other });
  t.is((await donate()).status, 400);
  t.like(await shown(), { subscription: "ended", subscription_id: subscriptionId });
  t.is((await subscribe()).status, 200);
  t.is((await donate()).status, 200);
});

test("a processor that was recorded before it had the items is no subscription", async (t) => {
  const { donate, accountId, subscriptionId, shown } = await stage(t);
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode, processor, subscription_id)
    VALUES (${accountId}, 'live', 'stripe', ${subscriptionId})
  `);
  t.is((await donate()).status, 400);
  t.like(await shown(), { subscription: null });
});

test("after a declined payment, the next call adds the items", async (t) => {
  const { subscribe, double, customerId, flat, added, metered } = await stage(t);
  const { control } = double;
  control.declinePayments({ customerId });
  t.is((await subscribe()).status, 500);
  control.acceptPayments({ customerId });
  t.is((await subscribe()).status, 200);
  t.deepEqual(added(), [flat, metered]);
});

test("live donations stop when the subscription is not active or its items are gone, until it subscribes again", async (t) => {
  const { subscribe, donate, double, accountId, subscriptionId, flat, refresh, shown } =
    await stage(t);
  await subscribe();
  const stops = async (): Promise<void> => {
    await refresh();
    t.like(await donate(), { status: 400, body: { error: "donation subscription not active" } });
  };
  double.control.changeSubscription({ subscriptionId, status: "past_due" });
  await stops();
  t.like(await shown(), { subscription: "ended", subscription_id: subscriptionId });
  double.control.changeSubscription({ subscriptionId, status: "active" });
  await refresh();
  t.is((await donate()).status, 200);
  double.control.changeSubscription({ subscriptionId, removePrices: [flat] });
  await stops();
  const lost = async (): Promise<boolean | undefined> =>
    (await listWatchedSubscriptions(t.context.db, accountId))[0]?.lostDonationItems;
  t.true(await lost(), "operators see it");
  t.is((await subscribe()).status, 200);
  t.is((await donate()).status, 200);
  t.false(await lost());
});

test("without Stripe in the settings an organization with a Stripe customer does not subscribe at the ledger instead", async (t) => {
  const { accountId, subscribe, donate } = await stage(t);
  const { db } = t.context;
  t.is((await subscribe()).status, 200);
  const deps = { db, clock: systemClock, billing: createBilling({ db, stripe: null }) };
  const owner = { accountId, mode: "live" } as const;
  const before = await readDonor(db, owner, []);

  await t.throwsAsync(subscribeToDonations(deps, owner), { instanceOf: OutageError });

  const after = await readDonor(db, owner, []);
  t.deepEqual(after, before);
  t.is(subscriptionStateOf(deps, after, "live"), "active");
  t.is((await donate()).status, 200);
});

test("test mode never reaches Stripe", async (t) => {
  const { subscribe, double, accountId } = await stage(t);
  const callsBefore = double.control.calls().length;
  t.is((await subscribe("test")).status, 200);
  t.is(double.control.calls().length, callsBefore);
  const recorded = await readDonor(t.context.db, { accountId, mode: "test" }, []);
  t.is(recorded.processor, "ledger");
  t.truthy(recorded.activeSince);
});

test("a body is ignored, unless it is over 1 MiB", async (t) => {
  const { call, live } = await startDonationApi(t);
  for (const body of [{ plan: "gold" }, [], {}, undefined]) {
    t.is((await call("POST", "/charities/subscribe", { key: live, body })).status, 200);
  }
  const large = { plan: "x".repeat(1024 * 1024) };
  t.is((await call("POST", "/charities/subscribe", { key: live, body: large })).status, 413);
});
