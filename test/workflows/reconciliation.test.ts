import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import test from "ava";
import { bundleWorkflows } from "../../worker/runWorker.ts";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

Runtime.install({ logger: new DefaultLogger("ERROR") });

const stream = (accountName: string) => ({
  accountId: crypto.randomUUID(),
  accountName,
  mode: "live",
  meter: "tree",
  processor: "stripe",
  customerId: null,
});

test("each poll is told which streams all polls before it have found drifting", async (t) => {
  const { client, namespace } = await openNamespace(t);
  const connection = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
  t.teardown(() => connection.close());
  const [lagging, drifting] = [stream("Lagging"), stream("Drifting")];
  const found = [[lagging, drifting], [drifting], [drifting]];
  const asked: unknown[] = [];
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue: "test",
    workflowBundle: await bundleWorkflows(),
    activities: {
      reconcileUsage: (poll: unknown) => {
        const streams = found[asked.length] ?? [];
        asked.push(poll);
        return Promise.resolve({
          streams: 3,
          drifting: streams.map((each) => Object.assign({ drift: 1, differences: [] }, each)),
        });
      },
    },
  });

  const report = await worker.runUntil(() =>
    client.workflow.execute(reconciliation, {
      workflowId: "reconciliation/test",
      taskQueue: "test",
      args: ["10 milliseconds"],
    }),
  );

  t.deepEqual(asked, [
    { isFinal: false, candidates: null },
    { isFinal: false, candidates: [lagging, drifting] },
    { isFinal: true, candidates: [drifting] },
  ]);
  t.deepEqual(
    report.drifting.map(({ accountName }) => accountName),
    ["Drifting"],
  );
});
