import { updateOrganization } from "../../../modules/accounts/updateOrganization.ts";
import {
  listStreamsNeedingAttention,
  listUnexplained,
} from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { closeUsage } from "../../../modules/billing/reconciliation/closeUsage.ts";
import { sendDifference } from "../../../modules/billing/reconciliation/retryUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";
import type { BillingSetup } from "../billingSetup.ts";

import { compare, openDifferences, reconcile } from "./reconciliationSetup.ts";

const test = testWithDatabase();

const LAGGING = { summaryDelaySeconds: 120 };
/** Longer than Stripe's sums may lag. */
const LAG_SECONDS = 16 * 60;

/** Delivers usage that Stripe then loses without a report. */
const loseUsage = async ({ double, register, drain }: BillingSetup, units: number) => {
  double.control.addFault({ kind: "reject_later" });
  await register(units);
  await drain();
};

test("units of a customer without any usage here are found, also of one that the account has had", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, pass, double, reportElsewhere, stream, customerId } = setup;
  await reportElsewhere(4);
  await updateOrganization(deps, stream.accountId, {
    stripeCustomerId: double.control.addSubscriber({}).customerId,
    stripeSubscriptionId: null,
  });
  pass(3600);

  await reconcile(setup);

  t.like(await openDifferences(setup), [{ customerId, kind: "tree", units: 4 }]);
});

test("the difference of many minutes is reported as a whole, with its first twenty minutes", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, pass, double, reportElsewhere } = setup;
  const second = double.control.now();
  for (let minute = 0; minute < 25; minute += 1) {
    await register(10);
    await reportElsewhere(1);
    pass(60);
  }
  await drain();
  pass(3600);

  const { drifting } = await reconcile(setup);

  t.is(drifting.length, 1);
  t.like(drifting[0], { delivered: 250, processorQuantity: 275, error: null });
  const found = await openDifferences(setup);
  t.deepEqual(
    found.map((difference) => difference.second).toSorted((a, b) => a - b),
    Array.from({ length: 20 }, (_, minute) => second + minute * 60),
  );
});

test("a refund delivered a minute ago is no difference while the processor's sums may lag", async (t) => {
  const setup = await setUpBilling(t, LAGGING);
  const { register, refund, drain, pass, double, reportElsewhere } = setup;
  const second = double.control.now();
  const id = await register(7);
  await drain();
  pass(3600);
  await refund(id, 2);
  await drain();

  const lagging = await compare(setup);
  await reconcile(setup);

  t.like(lagging.differences[0], { ours: 5, theirs: 7, mayLag: true });
  t.deepEqual(listStreamsNeedingAttention([lagging]), []);
  t.deepEqual(await openDifferences(setup), []);
  await reportElsewhere(3, second);
  pass(LAG_SECONDS);
  await reconcile(setup);
  t.like(await openDifferences(setup), [{ units: 3 }]);
});

test("a difference is not recorded while an undecided event may explain it", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drainOnce, pass, double, retryFailed, drain } = setup;
  await register(7);
  pass(5);
  for (const fault of [
    { kind: "drop", applied: true } as const,
    {
      kind: "respond",
      status: 400,
      body: { error: { type: "invalid_request_error", message: "Not now." } },
    } as const,
  ]) {
    double.control.addFault(fault);
    await drainOnce();
    pass(3600);
    const pending = await compare(setup);
    t.like(pending, { delivered: 0, processorQuantity: 7 });
    t.deepEqual(listStreamsNeedingAttention([pending]), []);
  }

  const report = await compare(setup);
  t.like(report.differences[0], { ours: 0, theirs: 7, units: 7, mayLag: false });
  t.is(report.differences[0]?.askedIds.length, 1);
  t.deepEqual(listUnexplained(report), []);
  await reconcile(setup);
  t.deepEqual(await openDifferences(setup), []);

  await retryFailed();
  await drain();
  t.deepEqual((await compare(setup)).differences, []);
});

test("usage that never arrives is a difference of its second once the processor's sums can no longer lag", async (t) => {
  const setup = await setUpBilling(t, LAGGING);
  const { pass, double, stream } = setup;
  pass(25);
  const second = double.control.now();
  await loseUsage(setup, 7);
  pass(10 * 60);
  await reconcile(setup);
  t.deepEqual(await openDifferences(setup), []);
  pass(3600);

  await reconcile(setup);

  t.like(await openDifferences(setup), [{ accountId: stream.accountId, second, units: -7 }]);
});

test("usage that Stripe lost is sent once, as its difference", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, drain, register, pass, events, billed, recorded, double, reportElsewhere } = setup;
  const second = double.control.now();
  await register(3);
  await drain();
  await loseUsage(setup, 7);
  pass(3600);
  await reconcile(setup);
  const [difference] = await openDifferences(setup);
  const id = difference?.id ?? 0n;
  const send = (isDryRun = false) =>
    sendDifference(deps, id, { reason: "lost", by: "ada", isDryRun });
  t.like(difference, { units: -7 });

  await reportElsewhere(1, difference?.second);
  await t.throwsAsync(send(), { message: /the sums of D\d+ have changed: it is -6 units now/u });
  await reportElsewhere(-1, difference?.second);
  t.is((await send(true)).units, -7);
  t.is((await openDifferences(setup)).length, 1);

  const results = await Promise.allSettled([send(), send()]);
  t.true(results.some(({ status }) => status === "fulfilled"));
  await drain();

  t.deepEqual(await events(), [
    { state: "delivered", quantity: 3 },
    { state: "delivered", quantity: 7 },
    { state: "delivered", quantity: -7 },
    { state: "delivered", quantity: 7 },
  ]);
  t.deepEqual(billed(), await recorded());
  t.is(billed()[second], 3);
  await t.throwsAsync(send(), { message: /is sent: there is nothing to retry/u });
  pass(3600);
  await reconcile(setup);
  t.deepEqual(await openDifferences(setup), []);
});

test("a difference is not sent while the sums may lag or an event may be in it", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, drain, pass, reportElsewhere, double } = setup;
  const second = double.control.now();
  await register(3);
  await drain();
  await reportElsewhere(2, second);
  pass(3600);
  await reconcile(setup);
  const [difference] = await openDifferences(setup);
  const send = () =>
    sendDifference(deps, difference?.id ?? 0n, { reason: "a test", by: "ada", isDryRun: false });
  double.control.holdClock({ second });
  await register(1);
  double.control.holdClock({ second: second + 3700 });
  await drain();
  await t.throwsAsync(send(), { message: /may lag for another/u });
  pass(LAG_SECONDS);
  await t.throwsAsync(
    sendDifference(deps, 999_999n, { reason: "a test", by: "ada", isDryRun: false }),
    { code: "record_not_found" },
  );

  await send();
  await drain();

  t.deepEqual(setup.billed(), await setup.recorded());
});

test("a difference that is found again keeps its id, one that is gone disappears, and an accepted one is not found again", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, drain, pass, double, reportElsewhere } = setup;
  const second = double.control.now();
  await register(7);
  await drain();
  await reportElsewhere(2, second);
  pass(3600);
  const find = async () => {
    await reconcile(setup);
    return openDifferences(setup);
  };

  const [found] = await find();
  t.like(found, { units: 2 });
  await reportElsewhere(3, second);
  const [again] = await find();
  t.like(again, { id: found?.id ?? 0n, units: 5 });

  await reportElsewhere(-5, second);
  t.deepEqual(await find(), []);

  await reportElsewhere(4, second);
  const [later] = await find();
  t.not(later?.id, found?.id);
  await closeUsage(
    deps,
    { eventIds: [], differenceIds: [later?.id ?? 0n] },
    { document: null, reason: "a partner's", by: "ada", expectedUnits: null, isDryRun: false },
  );
  t.deepEqual(await find(), []);
  await reportElsewhere(1, second);
  t.like(await find(), [{ units: 1 }]);
});
