import { WorkflowFailedError } from "@temporalio/client";
import { createBillingActivities } from "../../activities/createBillingActivities.ts";
import { listFailedMeterEventIds } from "../../db/billing/meterEventReports.ts";
import { listWaitingRefunds, markRefundDispatched } from "../../db/registrations/refunds.ts";
import { retryUsage } from "../../services/billing/retryUsage.ts";
import { waiveUsage } from "../../services/billing/waiveUsage.ts";
import { refund, refundWorkflowId } from "../../workflows/refund.ts";
import { setUpBilling } from "../billing/billingSetup.ts";
import { testWithDatabase } from "../support/database.ts";
import { seizeLease } from "../worker/dispatcher/dispatching.ts";
import { startWorker } from "./startWorker.ts";

// Serial, because the refunds that wait are those of all accounts.
const test = testWithDatabase();

const failsAndStartsAgain = test.macro(async (t, settle: "retry" | "waive") => {
  const setup = await setUpBilling(t);
  const { deps, stream, double, register, drain } = setup;
  const { db } = deps;
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
  const [waiting] = await listWaitingRefunds(db, 10);
  const lease = await seizeLease(db);
  await markRefundDispatched(db, waiting?.id ?? "", deps.clock.now(), lease);

  const failure = await t.throwsAsync(run(), { instanceOf: WorkflowFailedError });
  t.regex(String(failure?.cause?.cause), /the refunded usage has failed; see: impact usage show /u);
  t.deepEqual(await listWaitingRefunds(db, 10), []);

  const [failed = 0n] = await listFailedMeterEventIds(db, stream);
  await (settle === "retry" ? retryUsage(deps, failed) : waiveUsage(deps, failed, "by hand"));
  await drain();

  t.deepEqual(await listWaitingRefunds(db, 10), [{ id: waiting?.id, registrationId: id }]);
  await t.notThrowsAsync(run());
  await markRefundDispatched(db, waiting?.id ?? "", deps.clock.now(), lease);
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
