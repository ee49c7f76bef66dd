import { defaultPayloadConverter } from "@temporalio/common";
import type { WorkflowHandle } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createBillingActivities } from "../../activities/createBillingActivities.ts";
import type { Clock } from "../../domain/clock.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { createStripeClient } from "../../providers/billing/stripe/createStripeClient.ts";
import { drainUsage } from "../../services/billing/drainUsage.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { startWorker } from "./startWorker.ts";

const test = testWithDatabase();

const pollInput = z.object({
  isFinal: z.boolean(),
  candidates: z.array(z.object({ accountName: z.string() })).nullable(),
});

/** Returns what each poll of the workflow was given, from its history. */
const listPolls = async (
  handle: WorkflowHandle,
): Promise<readonly { readonly isFinal: boolean; readonly candidates: string[] | null }[]> => {
  const { events } = await handle.fetchHistory();
  return (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) => {
    const payload = scheduled?.input?.payloads?.[0];
    if (!payload) {
      return [];
    }
    const { isFinal, candidates } = pollInput.parse(defaultPayloadConverter.fromPayload(payload));
    return [{ isFinal, candidates: candidates?.map(({ accountName }) => accountName) ?? null }];
  });
};

test("only a stream that drifts in every poll is reported", async (t) => {
  const { db }: { readonly db: DatabasePool } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { control } = double;
  control.holdClock({ second: Date.UTC(2026, 4, 15, 12) / 1000 });
  const clock: Clock = { now: () => new Date(control.now() * 1000) };
  const stripe = { apiBase: double.url, secretKey: double.secretKey };
  const billing = createBilling({ db, stripe });
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
  // The first poll does not see the usage yet.
  control.addFault({
    kind: "respond",
    method: "GET",
    path: `/v1/billing/meters/${control.meterIds().tree}/event_summaries`,
    mentioning: lagging,
    status: 200,
    body: { object: "list", url: "", has_more: false, data: [] },
  });
  const reported: string[][] = [];
  const client = await startWorker(
    t,
    createBillingActivities({
      db,
      clock,
      billing,
      observeSend: () => undefined,
      observeRefusal: () => undefined,
      observeFailedEvent: () => undefined,
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
    { isFinal: false, candidates: null },
    { isFinal: false, candidates: ["Drifting", "Lagging"] },
    { isFinal: true, candidates: ["Drifting"] },
  ]);
  t.is(report.streams, 3);
  t.deepEqual(
    report.drifting.map(({ accountName, drift }) => [accountName, drift]),
    [["Drifting", 1]],
  );
  t.deepEqual(reported, [["Drifting"]]);
});
