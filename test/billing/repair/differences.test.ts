import { holdUsage } from "../../../modules/billing/holdUsage.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { minuteOf } from "../../../modules/billing/usage.rules.ts";
import { LAG_SECONDS, NOON } from "../convergence/world.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import { CREDIT_NOTE, INVOICE_ITEM, testRepairs } from "./testRepairs.ts";

const test = testRepairs();

const DAY = 24 * 60 * 60;

test("units that nothing explains are found once, and taken back by a retry", async (t, operator) => {
  const difference = await operator.addSurplus();
  t.like(difference, { quantity: -3, customerId: operator.customerIds[0], failure: "difference" });
  t.like(await operator.reconcile(), [{ id: difference.id, quantity: -3 }]);

  await operator.retry(difference.id, null, true);
  t.is((await operator.reconcile()).length, 1, "a dry run changes nothing");
  await operator.retry(difference.id);
  await operator.refusesRetry(difference.id, /is pending: there is nothing to retry/u);
  await operator.send();

  t.deepEqual(operator.billed(), { 0: 5 });
  t.deepEqual(await operator.reconcile(), []);
});

test("usage that Stripe has lost is sent again once by retries of the difference", async (t, operator) => {
  await operator.loseDelivered();
  const difference = await operator.findDifference();
  t.is(difference.quantity, 5);
  const send = () => operator.retry(difference.id);
  await Promise.allSettled([send(), send()]);
  await operator.send();

  t.deepEqual(operator.billed(), { 0: 5 });
  t.deepEqual(await operator.reconcile(), []);
});

test("an accepted difference is not found again, and a later one of its minute is", async (t, operator) => {
  const difference = await operator.addSurplus();
  await operator.close([difference]);
  t.deepEqual(await operator.reconcile(), []);
  await operator.refusesRetry(difference.id, /is closed: there is nothing to retry/u);

  operator.reportElsewhere(NOON, 4);
  const [later] = await operator.reconcile();
  t.is(later?.quantity, -4);
  await operator.retry(later?.id ?? 0n);
  await operator.send();
  t.deepEqual(operator.billed(), { 0: 8 });
});

test("a difference that is decided before a comparison has ended is not found again", async (t, operator) => {
  const difference = await operator.addSurplus();
  const { billing, ...deps } = operator.deps();
  const stripe = billing.stripe ?? t.fail();
  const sumUsage: typeof stripe.sumUsage = async (customerId, kind, span, signal) => {
    const sum = await stripe.sumUsage(customerId, kind, span, signal);
    // The minute was compared before.
    if (span.end - span.start === 60 && span.start === minuteOf(difference.second).end) {
      await operator.retry(difference.id);
    }
    return sum;
  };
  const slow = { ...deps, billing: { ...billing, stripe: { ...stripe, sumUsage } } };
  operator.pass(120);
  await reconcileUsage(slow, { span: operator.comparedSpan() }, new AbortController().signal);

  t.is((await operator.find(difference.id))?.state, "pending");
  t.deepEqual(await operator.listDifferences(), []);
  await operator.send();
  t.deepEqual(operator.billed(), { 0: 5 });
});

test("a difference that is gone meanwhile is not sent", async (t, operator) => {
  const difference = await operator.addSurplus();
  operator.reportElsewhere(NOON, -3);
  operator.pass(LAG_SECONDS);

  await operator.refusesRetry(difference.id, /have changed: 0 units correct them now/u);

  t.deepEqual(await operator.reconcile(), []);
});

test("a difference that is too old for Stripe is not sent, and a document closes it", async (t, operator) => {
  const difference = await operator.addSurplus();
  operator.pass(35 * DAY);
  t.like(await operator.retry(difference.id), { units: -3, retry: "too_old" });
  t.deepEqual(await operator.states(), ["delivered", "too_old", "delivered"]);

  t.is((await operator.close([difference], { document: CREDIT_NOTE })).units, -3);
  operator.billBy([difference]);
  t.deepEqual(await operator.reconcile(), []);
});

test("what Stripe lacks of usage that is older than comparisons read is a difference, too", async (t, operator) => {
  const { id, second } = await operator.failUnknown(6, false);
  operator.reportElsewhere(second, 4);
  operator.pass(36 * DAY);
  await operator.retry(id);
  await operator.settle();
  await reconcileUsage(operator.deps(), {}, new AbortController().signal);

  t.is((await operator.find(id))?.state, "delivered");
  const differences = await operator.listDifferences();
  t.is((await operator.close(differences, { document: INVOICE_ITEM })).units, 2);
  operator.billBy(differences);
  t.deepEqual(await operator.reconcile(), []);
});

test("a difference at a customer that was deleted is closed, not retried, and does not keep others from that", async (t, operator) => {
  const difference = await operator.addSurplus();
  const refused = await operator.fail(2, { place: 1 });
  operator.control.deleteCustomer({ customerId: difference.customerId ?? "" });
  const retried = await operator.retryAll();
  t.regex(
    String(retried[0]?.retry),
    /No such customer: cus_\w+, so D\d+ cannot be sent: close it/u,
  );
  t.like(retried[1], { id: refused.id, retry: "send" });
  await operator.send();
  await operator.close([difference]);
  t.deepEqual(await operator.reconcile(), []);
});

test("a difference is not sent while usage of its minute is being sent, asked about or just delivered", async (t, operator) => {
  const difference = await operator.addSurplus();
  operator.control.addFault({ kind: "server_error" });
  await operator.register(operator.accountIds[0] ?? "", 2, { second: NOON });
  await operator.send();
  await operator.refusesRetry(difference.id, /another event of that minute is being sent/u);
  await operator.send();
  const lag = /sums may lag until 2026-\S+Z; repeat the command then/u;
  await operator.refusesRetry(difference.id, lag);
  operator.pass(LAG_SECONDS);
  operator.control.addFault({ kind: "drop" });
  operator.control.addFault(REFUSED);
  await operator.register(operator.accountIds[0] ?? "", 1, { second: NOON });
  await operator.send();
  await operator.send();
  operator.pass(LAG_SECONDS);
  await operator.refusesRetry(difference.id, /may be E\d+: retry or close that first/u);

  await operator.retryAll();
  await operator.settle();
  for (const { id } of await operator.reconcile()) {
    await operator.retry(id);
  }
  await operator.settle();
  t.deepEqual(operator.billed(), { 0: 8 });
});

test("a difference is not sent while usage is held", async (t, operator) => {
  const difference = await operator.addSurplus();
  await holdUsage(operator.deps(), { reason: "maintenance", by: "maria" });
  await operator.refusesRetry(difference.id, /usage is held by maria: maintenance/u);
  await operator.resume();
  await operator.retry(difference.id);
  await operator.send();
  t.deepEqual(operator.billed(), { 0: 5 });
});

test("a minute whose sum may lag is no difference, also on a machine whose clock is fast", async (t, operator) => {
  await operator.loseDelivered();
  operator.pass(2 * 60);
  t.is((await operator.onClock(20 * 60 - LAG_SECONDS, operator.reconcile)).length, 1);
  const [difference] = await operator.reconcile();
  await operator.retry(difference?.id ?? 0n);
  await operator.send();
});
