import { ApplicationFailure, defaultPayloadConverter } from "@temporalio/common";
import type { Payload } from "@temporalio/common";
import type { WorkflowHandle } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createBillingActivities } from "../../activities/createBillingActivities.ts";
import {
  findLastReconciliation,
  readReconciliationStatus,
} from "../../db/billing/reconciliation/reconciliations.ts";
import type { Clock } from "../../domain/clock.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { connectStripe } from "../../providers/billing/stripe/connectStripe.ts";
import { createStripeClient } from "../../providers/billing/stripe/createStripeClient.ts";
import { drainUsage } from "../../services/billing/sending/drainUsage.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { startWorker } from "./startWorker.ts";

const test = testWithDatabase();

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
    const stream = { accountId, mode: "live", meter: "tree" } as const;
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
      observeSend: () => undefined,
      observeRejection: () => undefined,
      observeFailedEvent: () => undefined,
      observeUnreadSubscription: () => undefined,
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
        observeSend: () => undefined,
        observeDrift: () => undefined,
        observeRejection: () => undefined,
        observeFailedEvent: () => undefined,
        observeUnreadSubscription: () => undefined,
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
