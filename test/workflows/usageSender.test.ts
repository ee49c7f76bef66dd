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
      observeRefusal: () => undefined,
      observeFailedEvent: () => undefined,
      observeDrift: () => undefined,
    }),
  );
  await register(5);
  pass(60);
  double.control.addFault({ kind: "rate_limit", times: 1_000_000 });

  const workflowId = usageSenderWorkflowId(stream);
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
