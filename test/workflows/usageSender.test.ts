import { createBillingActivities } from "../../activities/createBillingActivities.ts";
import { usageSender, usageSenderWorkflowId, wakeSignal } from "../../workflows/usageSender.ts";
import { setUpBilling } from "../billing/billingSetup.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { startWorker } from "./startWorker.ts";

const test = testWithDatabase();

test("a sender without progress continues as new, however often it is woken, and later sends the usage", async (t) => {
  const { deps, double, stream, customerId, register, pass } = await setUpBilling(t);
  const client = await startWorker(
    t,
    createBillingActivities({
      ...deps,
      observeSend: () => undefined,
      observeRejection: () => undefined,
      observeFailedEvent: () => undefined,
      observeUnreadSubscription: () => undefined,
      observeDrift: () => undefined,
    }),
  );
  await register(5);
  pass(60);
  double.control.addFault({ kind: "rate_limit", times: 1_000_000 });

  const workflowId = usageSenderWorkflowId("test", stream);
  const first = await client.workflow.start(usageSender, {
    workflowId,
    taskQueue: "test",
    args: [stream, "3 seconds"],
  });
  const current = client.workflow.getHandle(workflowId);
  await eventually(async () => {
    await current.signal(wakeSignal);
    return (await current.describe()).runId !== first.firstExecutionRunId;
  });
  t.deepEqual(double.control.events(), []);

  double.control.clearFaults();
  pass(60 * 60);
  await eventually(() => double.control.events().length > 0);
  await eventually(async () => (await current.describe()).raw.pendingActivities?.length === 0);
  t.deepEqual(
    double.control.usage({ customerId }).map(({ value }) => value),
    [5],
  );
  t.is((await current.describe()).status.name, "RUNNING");
});

test("each event's delay counts its own failures, so a stream whose calls often fail does not fall behind", async (t) => {
  const { deps, double, stream, register, pass, billed, recorded } = await setUpBilling(t);
  const client = await startWorker(
    t,
    createBillingActivities({
      ...deps,
      observeSend: () => undefined,
      observeRejection: () => undefined,
      observeFailedEvent: () => undefined,
      observeUnreadSubscription: () => undefined,
      observeDrift: () => undefined,
    }),
  );
  for (let count = 1; count <= 8; count += 1) {
    double.control.addFault({ kind: "server_error", mentioning: `:${double.control.now()}:` });
    await register(count);
    pass(1);
  }
  pass(5);
  const startedAtMs = performance.now();

  await client.workflow.start(usageSender, {
    workflowId: usageSenderWorkflowId("test", stream),
    taskQueue: "test",
    args: [stream],
  });
  await eventually(() => double.control.events().length === 8);

  // Delays that count the activity's attempts add up to more than three minutes.
  t.true(performance.now() - startedAtMs < 90_000);
  t.deepEqual(billed(), await recorded());
});
