import { REFUSED } from "../stripeDouble/faults.ts";
import { createBillingActivities } from "../../activities/createBillingActivities.ts";
import {
  findLastReconciliation,
  readLastSuccess,
} from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import { listMeterEvents } from "../../modules/billing/meterEventReports.sql.ts";
import { closeUsage } from "../../modules/billing/reconciliation/repairUsage.ts";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { refund, refundedSignal } from "../../workflows/refund.ts";
import { refundWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { listFailedEvents, setUpBilling } from "../billing/billingSetup.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { startWorker } from "./startWorker.ts";

// Some are serial, because reconciliations are of all accounts, and so are the refunds that wait.
const test = testWithDatabase();

const observers = { observeUnreadInvoices: () => undefined, observeDrift: () => undefined };

test.serial(
  "sums that cannot be read at first are compared again, and what differs is reported",
  async (t) => {
    const { deps, double, stream, customerId, register, drain, pass } = await setUpBilling(t);
    const { db } = deps;
    const { control } = double;
    await register(5);
    await drain();
    control.acceptEvent({ customerId, units: 1 });
    pass(24 * 3600);
    control.addFault({
      kind: "respond",
      method: "GET",
      path: `/v1/billing/meters/${control.meterIds().bottle}/event_summaries`,
      status: 500,
      body: { error: { type: "api_error", message: "down" } },
    });
    const reported: string[][] = [];
    const client = await startWorker(
      t,
      createBillingActivities({
        ...deps,
        ...observers,
        observeDrift: (streams) => reported.push(streams.map(({ kind }) => kind)),
      }),
    );

    const report = await client.workflow.execute(reconciliation, {
      workflowId: "reconciliation/test",
      taskQueue: "test",
      args: ["10 milliseconds"],
    });

    t.deepEqual(report, { compared: 2, drifting: 1 });
    t.deepEqual(reported, [["bottle", "tree"], ["tree"]]);
    t.true(control.calls().some(({ path }) => path === "/v1/checkout/sessions"));
    const stored = await findLastReconciliation(db);
    t.like(stored, { streams: 2, error: null });
    t.like(await readLastSuccess(db), { lastSuccessAt: stored?.endedAt });
    t.like(await listMeterEvents(db, { state: "difference", accountId: null, limit: 10 }), [
      { accountId: stream.accountId, quantity: -1 },
    ]);
  },
);

test("the workflow of a refund whose usage has failed waits, and completes after an operator has settled it", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, stream, double, register, drain } = setup;
  const client = await startWorker(t, createBillingActivities({ ...deps, ...observers }));
  const id = await register(5);
  await drain();
  await setup.refund(id, 2);
  double.control.addFault(REFUSED);
  await drain();
  const handle = await client.workflow.start(refund, {
    workflowId: refundWorkflowId("test", id),
    taskQueue: "test",
    args: [id],
  });
  await eventually(async () => {
    const { raw } = await handle.describe();
    const message = raw.pendingActivities?.[0]?.lastFailure?.message ?? "";
    return message.startsWith("the refunded usage has failed; see: impact usage explain ");
  });

  const [failed = 0n] = await listFailedEvents(deps.db, stream);
  await closeUsage(deps, [failed], { document: { kind: "credit_note", reference: "cn_1" } });

  await t.notThrowsAsync(handle.result());
});

test("a refund that is not settled continues as new, however often it is signaled, and completes later", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, drain, billed, recorded } = setup;
  const client = await startWorker(t, createBillingActivities({ ...deps, ...observers }));
  const id = await register(5);
  await drain();
  await setup.refund(id, 1);

  const workflowId = refundWorkflowId("test", id);
  const args: Parameters<typeof refund> = [id, "3 seconds"];
  const first = await client.workflow.start(refund, { workflowId, taskQueue: "test", args });
  const current = client.workflow.getHandle(workflowId);
  await eventually(async () => {
    await current.signal(refundedSignal);
    return (await current.describe()).runId !== first.firstExecutionRunId;
  });

  await drain();
  await current.result();
  t.deepEqual(billed(), await recorded());
});
