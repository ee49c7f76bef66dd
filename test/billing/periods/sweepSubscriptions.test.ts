import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { z } from "zod";
import { createBillingActivities } from "../../../activities/createBillingActivities.ts";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listBillingPeriods } from "../../../modules/billing/billingPeriods.sql.ts";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { listWatchedSubscriptions } from "../../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { listLastPasses } from "../../../db/perpetualWork.sql.ts";
import { guardUsage, holdUsage, resumeUsage } from "../../../modules/billing/holdUsage.ts";
import { deploymentNameOf } from "../../../modules/billing/deployment.rules.ts";
import { ProcessorUnavailableError } from "../../../modules/billing/processor.ts";
import { createStripeClient } from "../../../modules/billing/stripe/createStripeClient.ts";
import {
  refreshSubscription,
  sweepSubscriptions,
} from "../../../modules/billing/processorEvents/refreshSubscriptions.ts";
import { subscriptionSweepId, backgroundQueue } from "../../../runtime/temporalNames.rules.ts";
import { readNewSubscriptions } from "../../../worker/prepareProcessor.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { eventually } from "../../support/programs.ts";
import { startDispatcher } from "../../worker/dispatcher/dispatching.ts";
import { startWorker } from "../../workflows/startWorker.ts";
import { setUpBilling } from "../billingSetup.ts";
import type { BillingSetup } from "../billingSetup.ts";
import { setUpRestore } from "../repair/restoreSetup.ts";

// Serial, because a sweep reads every subscription of the file's database.
const test = testWithDatabase().serial;

/** Sets up five organizations. Stripe answers no call about their subscriptions until its faults are cleared. */
const setUpOutage = async (t: ExecutionContext<DatabaseContext>) => {
  for (const { accountId } of await listWatchedSubscriptions(t.context.db, null)) {
    await updateAccount(t.context.db, accountId, { stripeSubscriptionId: null });
  }
  const { deps, double, subscriptionId, pass } = await setUpBilling(t);
  const { control } = double;
  const subscriptionIds = [subscriptionId];
  for (let more = 0; more < 4; more += 1) {
    const subscriber = control.addSubscriber({});
    subscriptionIds.push(subscriber.subscriptionId);
    await createTestOrganization(deps.db, {
      stripeCustomerId: subscriber.customerId,
      stripeSubscriptionId: subscriber.subscriptionId,
    });
  }
  pass(1);
  for (const id of subscriptionIds) {
    control.addFault({ kind: "drop", method: "GET", path: `/v1/subscriptions/${id}` });
  }
  return { deps, control };
};

test("a sweep ends after three calls without an answer, and the next one continues", async (t) => {
  const { deps, control } = await setUpOutage(t);
  const failed: string[] = [];
  const sweep = () =>
    sweepSubscriptions(deps, deps.clock.now(), {
      signal: new AbortController().signal,
      onFailure: (id) => failed.push(id),
      intervalMs: 0,
    });

  await t.throwsAsync(sweep(), { instanceOf: ProcessorUnavailableError });

  t.is(failed.length, 3);
  control.clearFaults();
  t.deepEqual(await sweep(), { read: 5, failed: 0 });
});

test("a worker that starts during an outage of Stripe observes what it could not read, and logs no error", async (t) => {
  const { deps } = await setUpOutage(t);
  const levels: number[] = [];
  const logger = pino(
    {},
    { write: (line) => levels.push(z.object({ level: z.int() }).parse(JSON.parse(line)).level) },
  );

  const unread: string[] = [];
  const observeUnread = (accountId: string): void => {
    unread.push(accountId);
  };

  await readNewSubscriptions({ ...deps, logger, observeUnread }, new AbortController().signal);

  t.is(new Set(unread).size, 3);
  t.deepEqual(levels, []);
});

test("the status of a subscription is read although items of one meter have different periods", async (t) => {
  const { deps, double, stream, subscriptionId, pass } = await setUpBilling(t);
  const { stripe } = createStripeClient({ apiBase: double.url, secretKey: double.secretKey });
  const refresh = async () => {
    pass(1);
    await refreshSubscription(deps, stream.accountId, AbortSignal.timeout(60_000));
    return (await listWatchedSubscriptions(deps.db, stream.accountId))[0];
  };
  const { id: price } = await stripe.prices.create({
    currency: "usd",
    unit_amount: 90,
    product_data: { name: "Trees of a year" },
    recurring: { interval: "year", usage_type: "metered", meter: double.control.meterIds().tree },
  });
  await stripe.subscriptionItems.create({ subscription: subscriptionId, price });

  t.like(await refresh(), { status: "active", meteredKinds: ["tree", "bottle"] });
  const periods = await listBillingPeriods(deps.db, stream.accountId);
  t.deepEqual(
    periods.map(({ kind }) => kind),
    ["bottle"],
  );

  double.control.cancel({ subscriptionId, when: "now_without_invoice" });
  t.like(await refresh(), { status: "canceled" });
});

/** Starts a worker of a database that reads subscriptions, and returns its client. */
const startSweepWorker = async (t: ExecutionContext, deps: BillingSetup["deps"]) => {
  const name = deploymentNameOf(await readDeployment(deps.db));
  const activities = createBillingActivities({
    ...deps,
    observeSend: () => undefined,
    observeLateRefusal: () => undefined,
    observeFailedEvent: () => undefined,
    observeUnreadSubscription: t.fail,
    observeDrift: () => undefined,
  });
  return { name, temporal: await startWorker(t, activities, backgroundQueue(name)) };
};

test("after a restore, subscriptions are read again when usage is resumed", async (t) => {
  const { original, fork, control, pass, stream, subscriptionId } = await setUpRestore(t);
  await sweepSubscriptions(original.deps, original.deps.clock.now(), {
    signal: new AbortController().signal,
    onFailure: t.fail,
  });
  const { restored } = await fork(original);
  control.changeSubscription({ subscriptionId, status: "canceled" });
  pass(60);
  const readStatus = async () =>
    (await listWatchedSubscriptions(restored.db, stream.accountId))[0]?.status;
  t.is(await readStatus(), "active");
  await resumeUsage(restored.deps);

  const { temporal } = await startSweepWorker(t, restored.deps);
  await startDispatcher(t, { db: restored.db, clock: restored.deps.clock, temporal });

  await eventually(async () => (await readStatus()) === "canceled");
});

test("when a hold begins, subscriptions are read again once", async (t) => {
  const { deps, double, stream, subscriptionId, pass } = await setUpBilling(t);
  await guardUsage(deps);
  await refreshSubscription(deps, stream.accountId, AbortSignal.timeout(60_000));
  double.control.changeSubscription({ subscriptionId, status: "canceled" });
  pass(60);
  const hold = await holdUsage(deps, { reason: "a test", by: "ada" });
  t.teardown(() => resumeUsage(deps, { wasNothingLost: true }));
  const { temporal, name } = await startSweepWorker(t, deps);
  const first = await startDispatcher(t, { db: deps.db, temporal });

  await eventually(
    async () =>
      (await listWatchedSubscriptions(deps.db, stream.accountId))[0]?.status === "canceled",
  );
  const sweep = temporal.workflow.getHandle(
    `${subscriptionSweepId(name)}-${hold.at?.toISOString()}`,
  );
  const { runId } = await sweep.describe();
  await sweep.result();
  await first.stop();
  await startDispatcher(t, { db: deps.db, temporal });
  const stoppedAtMs = performance.now();
  await eventually(async () => {
    const passes = await listLastPasses(deps.db);
    const dispatcher = passes.find(({ kind }) => kind === "dispatcher");
    const ageSeconds = dispatcher?.ageSeconds ?? Number.POSITIVE_INFINITY;
    return ageSeconds * 1000 < performance.now() - stoppedAtMs;
  });
  t.is((await sweep.describe()).runId, runId);
});
