import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listBillingPeriods } from "../../../modules/billing/billingPeriods.sql.ts";
import { listWatchedSubscriptions } from "../../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { DomainError, UnavailableError } from "../../../runtime/errors.rules.ts";
import { createStripeClient } from "../../../modules/billing/stripe/createStripeClient.ts";
import { updateOrganization } from "../../../modules/accounts/manageOrganizations.ts";
import { resolveBillingCycle } from "../../../modules/billing/resolveBillingCycle.ts";
import { readStatement } from "../../../modules/billing/readStatement.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { setUpBilling } from "../billingSetup.ts";
import { amendSubscription } from "../stripe/stripeSetup.ts";

const test = testWithDatabase();

const DAY = 86_400;
const OUTSIDE_CYCLE = { instanceOf: DomainError, code: "outside_billing_cycle" };

test("a refund is accepted in the last second of the subscription's period and rejected in the next", async (t) => {
  const { register, refund, double, pass } = await setUpBilling(t);
  const { control } = double;
  const id = await register(5);
  const other = await register(5);
  const end = Date.UTC(2026, 5, 15, 12) / 1000;

  control.holdClock({ second: end - 1 });
  t.is((await refund(id)).refundedCount, 5);

  pass(1);
  await t.throwsAsync(refund(other), OUTSIDE_CYCLE);
});

test("without Stripe's key, a refund uses the stored period for an hour and fails after that", async (t) => {
  const { register, refund, refundWithoutKey, deps, stream, pass } = await setUpBilling(t);
  const id = await register(5);
  const error = await t.throwsAsync(refundWithoutKey(id, 1), { instanceOf: UnavailableError });
  t.regex(String(error?.cause), /STRIPE_SECRET_KEY is not set here/u);
  t.is((await readAccountSums(deps.db, stream.accountId)).refunded, 0n);

  await refund(id, 1);
  t.is((await refundWithoutKey(id, 1)).refundedCount, 1);

  pass(3600);
  await t.throwsAsync(refundWithoutKey(id, 1), { instanceOf: UnavailableError });
  t.is((await readAccountSums(deps.db, stream.accountId)).refunded, 2n);
});

test("the cycle of a Stripe customer without a subscription is the month from the billing day, with Stripe's key or without", async (t) => {
  const { register, refund, refundWithoutKey, deps, stream, double } = await setUpBilling(t);
  await updateAccount(deps.db, stream.accountId, { stripeSubscriptionId: null });
  const id = await register(5);

  double.control.holdClock({ second: Date.UTC(2026, 5, 1) / 1000 - 1 });
  t.is((await refund(id, 1)).refundedCount, 1);
  t.is((await refundWithoutKey(id, 1)).refundedCount, 1);

  double.control.holdClock({ second: Date.UTC(2026, 5, 1) / 1000 });
  for (const refundWith of [refund, refundWithoutKey]) {
    await t.throwsAsync(refundWith(id, 1), OUTSIDE_CYCLE);
  }
});

test("a period read from the previous subscription is not used for the current one", async (t) => {
  const { register, refund, double, deps, stream, customerId, subscriptionId } =
    await setUpBilling(t);
  const { control } = double;
  const id = await register(5);
  const { subscriptionId: current } = control.addSubscriber({ customerId });
  control.addFault({ kind: "hold", method: "GET", path: `/v1/subscriptions/${subscriptionId}` });
  const late = refund(id, 1);
  await eventually(() => control.held() === 1);

  await updateOrganization(deps, stream.accountId, { stripeSubscriptionId: current });
  control.release();
  await late;
  const isRead = () => control.calls().some(({ path }) => path === `/v1/subscriptions/${current}`);
  t.false(isRead());

  await refund(id, 1);
  t.true(isRead());
});

test("a cycle is never guessed: a subscription that has no price on the meter or is unknown has none", async (t) => {
  const { double, deps, stream, customerId } = await setUpBilling(t);
  const id = double.control.addSubscription({ customerId, prices: [double.control.addPrice({})] });
  await updateAccount(deps.db, stream.accountId, { stripeSubscriptionId: id });
  await t.throwsAsync(resolveBillingCycle(deps, stream), {
    message: /\(active\) has no single current period of trees/u,
  });
  await updateAccount(deps.db, stream.accountId, { stripeSubscriptionId: "sub_gone" });
  await t.throwsAsync(resolveBillingCycle(deps, stream), {
    message: /sub_gone \(missing\) has no single current period/u,
  });
});

test("usage from before a trial of a running subscription is not refunded, because Stripe has invoiced it", async (t) => {
  const { register, refund, pass, double, deps, stream, subscriptionId } = await setUpBilling(t);
  const { control } = double;
  const { stripe } = createStripeClient(double.stripe);
  const id = await register(5);
  pass(10 * DAY);
  const [start, end] = [control.now(), control.now() + 7 * DAY];
  await amendSubscription({ control, stripe }, subscriptionId, {
    subscription: { status: "trialing", trial_start: start, trial_end: end },
    item: { current_period_start: start, current_period_end: end },
  });
  const before = await readAccountSums(deps.db, stream.accountId);

  await t.throwsAsync(refund(id), OUTSIDE_CYCLE);
  t.deepEqual(await readAccountSums(deps.db, stream.accountId), before);
  t.is((await refund(await register(5))).refundedCount, 5);
});

test("after a subscription has ended, a refund is outside the billing cycle, and no statement is of the current one", async (t) => {
  const { register, refund, drain, refresh, double, deps, stream, subscriptionId } =
    await setUpBilling(t);
  const id = await register(5);
  await refund(id, 1);
  await drain();

  double.control.cancel({ subscriptionId, when: "now_without_invoice" });
  await refresh();

  await t.throwsAsync(refund(id, 1), OUTSIDE_CYCLE);
  t.is((await readAccountSums(deps.db, stream.accountId)).refunded, 1n);
  await t.throwsAsync(readStatement(deps, stream, "current"), {
    message: /has ended, so it has no current billing cycle/u,
  });
});

test("what was read of a subscription earlier does not replace what was read later", async (t) => {
  const { deps, double, stream, subscriptionId, pass, refresh } = await setUpBilling(t);
  const { control } = double;
  control.addFault({ kind: "hold", method: "GET", path: `/v1/subscriptions/${subscriptionId}` });
  const early = refresh();
  await eventually(() => control.held() === 1);
  pass(1);
  control.cancel({ subscriptionId, when: "now_without_invoice" });
  await refresh();
  const before = await listBillingPeriods(deps.db, stream.accountId);

  control.release();
  await early;

  const [watched] = await listWatchedSubscriptions(deps.db, stream.accountId);
  t.like(watched, { status: "canceled" });
  t.deepEqual(await listBillingPeriods(deps.db, stream.accountId), before);
});

test("in a yearly period, a refund is accepted only while Stripe accepts usage of the registration's age", async (t) => {
  const { register, refund, drain, double, deps, stream, customerId, pass, ...scene } =
    await setUpBilling(t);
  const { subscriptionId: yearly } = double.control.addSubscriber({ customerId, interval: "year" });
  await updateOrganization(deps, stream.accountId, { stripeSubscriptionId: yearly });
  const old = await register(5);
  await drain();
  pass(10 * DAY);
  const id = await register(7);
  await drain();

  pass(30 * DAY);
  const before = await readAccountSums(deps.db, stream.accountId);
  await t.throwsAsync(refund(old), OUTSIDE_CYCLE);
  t.deepEqual(await readAccountSums(deps.db, stream.accountId), before);

  t.is((await refund(id)).refundedCount, 7);
  // Stripe is down for days.
  pass(3 * DAY);
  await drain();
  t.deepEqual(Object.values(scene.billed()), [5]);
  t.deepEqual(scene.billed(), await scene.recorded());
});
