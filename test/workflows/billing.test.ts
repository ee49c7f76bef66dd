import { WorkflowFailedError } from "@temporalio/client";
import type { WorkflowHandle } from "@temporalio/client";
import { ApplicationFailure, defaultPayloadConverter } from "@temporalio/common";
import type { Payload } from "@temporalio/common";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createBillingActivities } from "../../activities/createBillingActivities.ts";
import { listFailedMeterEventIds } from "../../modules/billing/meterEventReports.sql.ts";
import {
  findLastReconciliation,
  readReconciliationStatus,
} from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import { markRefundsDispatched } from "../../modules/registrations/refunds.sql.ts";
import type { Clock } from "../../runtime/clock.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { createStripeClient } from "../../modules/billing/stripe/createStripeClient.ts";
import { retryUsage } from "../../modules/billing/reconciliation/retryUsage.ts";
import { settleUsage, waiveUsage } from "../../modules/billing/reconciliation/closeUsage.ts";
import { drainUsage } from "../billing/drainUsage.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { refund, refundedSignal } from "../../workflows/refund.ts";
import { refundWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { setUpBilling } from "../billing/billingSetup.ts";
import type { BillingSetup } from "../billing/billingSetup.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { listAllWaitingRefunds } from "../support/listAllWaitingRefunds.ts";
import { startWorker } from "./startWorker.ts";

// Some are serial, because reconciliations are of all accounts, and so are the refunds that wait.
const test = testWithDatabase();

const observers = {
  observeSend: () => undefined,
  observeRejection: () => undefined,
  observeFailedEvent: () => undefined,
  observeUnreadSubscription: () => undefined,
  observeDrift: () => undefined,
};

const pollInput = z.object({ isFinal: z.boolean() });
const pollResult = z.object({ compared: z.int(), drifting: z.int() });

/** Returns the first payload as a list of one, or an empty list. */
const firstOf = <Value>(
  schema: z.ZodType<Value>,
  payloads: readonly Payload[] | null | undefined,
): readonly Value[] =>
  payloads?.[0] ? [schema.parse(defaultPayloadConverter.fromPayload(payloads[0]))] : [];

/** Returns each poll of the workflow, from its history: whether it was the final one, and its result. */
const listPolls = async (handle: WorkflowHandle) => {
  const { events } = await handle.fetchHistory();
  const inputs = (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) =>
    firstOf(pollInput, scheduled?.input?.payloads),
  );
  const results = (events ?? []).flatMap(({ activityTaskCompletedEventAttributes: completed }) =>
    firstOf(pollResult, completed?.result?.payloads),
  );
  return inputs.map(({ isFinal }, index) => [isFinal, results[index]]);
};

test.serial("only a stream that drifts in every poll is reported", async (t) => {
  const { db }: { readonly db: DatabasePool } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { control } = double;
  control.holdClock({ second: Date.UTC(2026, 4, 15, 12) / 1000 });
  const clock: Clock = { now: () => new Date(control.now() * 1000) };
  const stripe = { apiBase: double.url, secretKey: double.secretKey };
  const billing = createBilling({ db, stripe: connectStripe(stripe) });
  const writer = createRegistrationWriter({ db, clock });
  const deliverUsage = async (name: string): Promise<string> => {
    const { customerId, subscriptionId } = control.addSubscriber({});
    const { id: accountId } = await createTestOrganization(db, {
      clock,
      name,
      stripeCustomerId: customerId,
      stripeSubscriptionId: subscriptionId,
    });
    await writer.register(registrationOf(accountId, { count: 5 }));
    control.advanceClock({ seconds: 60 });
    const stream = { accountId, mode: "live", kind: "tree" } as const;
    const signal = new AbortController().signal;
    await drainUsage({ db, clock, billing }, stream, { signal, onResult: () => undefined });
    return customerId;
  };
  await deliverUsage("Correct");
  const lagging = await deliverUsage("Lagging");
  const drifting = await deliverUsage("Drifting");
  await createStripeClient(stripe).stripe.billing.meterEvents.create({
    event_name: "impact_tree_planted",
    payload: { stripe_customer_id: drifting, value: "1" },
  });
  control.advanceClock({ seconds: 24 * 3600 });
  // The first poll, which reads a differing sum twice, does not see the usage yet.
  for (let read = 1; read <= 2; read += 1) {
    control.addFault({
      kind: "respond",
      method: "GET",
      path: `/v1/billing/meters/${control.meterIds().tree}/event_summaries`,
      mentioning: lagging,
      status: 200,
      body: { object: "list", url: "", has_more: false, data: [] },
    });
  }
  const reported: string[][] = [];
  const client = await startWorker(
    t,
    createBillingActivities({
      db,
      clock,
      billing,
      ...observers,
      observeDrift: (streams) => reported.push(streams.map(({ accountName }) => accountName)),
    }),
  );

  const handle = await client.workflow.start(reconciliation, {
    workflowId: "reconciliation/test",
    taskQueue: "test",
    args: ["10 milliseconds"],
  });
  const report = await handle.result();

  t.deepEqual(await listPolls(handle), [
    [false, { compared: 3, drifting: 2 }],
    [false, { compared: 2, drifting: 1 }],
    [true, { compared: 1, drifting: 1 }],
  ]);
  t.deepEqual(report, { compared: 1, drifting: 1 });
  t.deepEqual(reported, [["Drifting"]]);
  const stored = await findLastReconciliation(db);
  t.like(stored, { streams: 3, drifting: 1, unreadable: 0, driftUnits: 1, error: null });
  t.truthy(stored?.endedAt);
  t.like(await readReconciliationStatus(db), { lastSuccessAt: stored?.endedAt, driftUnits: 1 });
});

test.serial(
  "a reconciliation that fails is stored with its error, and leaves the last success and its drift",
  async (t) => {
    const { db }: { readonly db: DatabasePool } = t.context;
    const clock: Clock = { now: () => new Date(Date.UTC(2030, 0, 1)) };
    const before = await readReconciliationStatus(db);
    const client = await startWorker(t, {
      ...createBillingActivities({
        db,
        clock,
        billing: createBilling({ db, stripe: null }),
        ...observers,
      }),
      reconcileUsage: () => Promise.reject(ApplicationFailure.nonRetryable("out of memory")),
    });

    const handle = await client.workflow.start(reconciliation, {
      workflowId: "reconciliation/failing",
      taskQueue: "test",
      args: [],
    });
    await t.throwsAsync(handle.result());

    t.like(await findLastReconciliation(db), {
      startedAt: clock.now(),
      endedAt: clock.now(),
      streams: null,
      error: "out of memory",
    });
    t.deepEqual(await readReconciliationStatus(db), before);
  },
);

/** What an operator does about a failed event. */
const SETTLEMENTS = {
  retry: retryUsage,
  waive: (deps: BillingSetup["deps"], id: bigint) => waiveUsage(deps, id, "by hand"),
  settle: (deps: BillingSetup["deps"], id: bigint) =>
    settleUsage(
      deps,
      id,
      { kind: "credit_note", reference: "cn_1" },
      { reason: "by hand", expectedUnits: null },
    ),
} as const;

const failsAndStartsAgain = test.macro(async (t, settle: keyof typeof SETTLEMENTS) => {
  const setup = await setUpBilling(t);
  const { deps, stream, double, register, drain } = setup;
  const { db } = deps;
  const client = await startWorker(t, createBillingActivities({ ...deps, ...observers }));
  const id = await register(5);
  await drain();
  await setup.refund(id, 2);
  double.control.addFault({
    kind: "respond",
    status: 400,
    body: { error: { type: "invalid_request_error", message: "Refused for the test." } },
  });
  await drain();
  const run = (): Promise<void> =>
    client.workflow.execute(refund, {
      workflowId: refundWorkflowId("test", id),
      taskQueue: "test",
      args: [id],
    });
  const [waiting] = await listAllWaitingRefunds(db);
  const mark = async (): Promise<void> => {
    for (const refunds of await listAllWaitingRefunds(db)) {
      await markRefundsDispatched(db, refunds, deps.clock.now());
    }
  };
  await mark();

  const failure = await t.throwsAsync(run(), { instanceOf: WorkflowFailedError });
  t.regex(String(failure?.cause?.cause), /the refunded usage has failed; see: impact usage show /u);
  t.deepEqual(await listAllWaitingRefunds(db), []);

  const [failed = 0n] = await listFailedMeterEventIds(db, stream);
  await SETTLEMENTS[settle](deps, failed);
  await drain();

  const again = await listAllWaitingRefunds(db);
  t.deepEqual(
    again.map(({ registrationId, ids }) => ({ registrationId, ids })),
    [{ registrationId: id, ids: waiting?.ids }],
  );
  await t.notThrowsAsync(run());
  await mark();
});

test.serial(
  "the workflow of a refund whose usage has failed ends, and starts again after a retry",
  failsAndStartsAgain,
  "retry",
);
test.serial(
  "the workflow of a refund whose usage has failed ends, and starts again after a waiver",
  failsAndStartsAgain,
  "waive",
);
test.serial(
  "the workflow of a refund whose usage has failed ends, and starts again after it was settled by hand",
  failsAndStartsAgain,
  "settle",
);

/** Returns the longest interval between a run's retries, in seconds. */
const readRetryInterval = async (handle: WorkflowHandle): Promise<number | undefined> => {
  const { events } = await handle.fetchHistory();
  const scheduled = events?.flatMap(
    ({ activityTaskScheduledEventAttributes }) => activityTaskScheduledEventAttributes ?? [],
  );
  const interval = scheduled?.[0]?.retryPolicy?.maximumInterval;
  return interval ? Number(interval.seconds) : undefined;
};

test("a refund that is not settled continues as new, however often it is signaled, and completes later", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, drain, billed, recorded } = setup;
  const client = await startWorker(t, createBillingActivities({ ...deps, ...observers }));
  const id = await register(5);
  await drain();
  await setup.refund(id, 1);

  const workflowId = refundWorkflowId("test", id);
  const first = await client.workflow.start(refund, {
    workflowId,
    taskQueue: "test",
    args: [id, "3 seconds"],
  });
  const current = client.workflow.getHandle(workflowId);
  await eventually(async () => {
    await current.signal(refundedSignal);
    return (await current.describe()).runId !== first.firstExecutionRunId;
  });
  const firstRun = client.workflow.getHandle(workflowId, first.firstExecutionRunId);
  t.is(await readRetryInterval(firstRun), 60);
  let retryInterval: Awaited<ReturnType<typeof readRetryInterval>>;
  await eventually(async () => {
    retryInterval = await readRetryInterval(current);
    return retryInterval !== undefined;
  });
  t.is(retryInterval, 600);

  await drain();
  await current.result();
  t.deepEqual(billed(), await recorded());
});
