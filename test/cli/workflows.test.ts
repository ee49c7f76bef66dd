import { z } from "zod";
import { reconciliation } from "../../workflows/reconciliation.ts";
import { reconciliationId } from "../../runtime/temporalNames.rules.ts";
import { refund } from "../../workflows/refund.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { readJson, runImpact } from "./runImpact.ts";
import { listed, setUp, startRefund } from "./workflowSetup.ts";

const test = testWithDatabase();

test.serial("workflows are listed by type and status", async (t) => {
  const scene = await setUp(t);
  const { impact } = scene;
  const one = await startRefund(scene);
  const other = await startRefund(scene);
  const list = async (...filter: readonly string[]): Promise<readonly string[]> => {
    const run = await impact("workflow", "list", "--json", ...filter);
    t.is(run.exitCode, 0, run.stderr);
    return listed.parse(readJson(run)).map(({ workflow_id: id }) => id);
  };
  // Temporal's list is eventually consistent.
  await eventually(async () => (await list()).length === 2);
  t.deepEqual(
    (await list("--status", "running")).toSorted(),
    [one.workflowId, other.workflowId].toSorted(),
  );
  t.deepEqual(await list("--status", "completed"), []);
  t.is((await list("--type", "refund")).length, 2);
  t.deepEqual(await list("--type", "o'clock"), []);
  const shortened = await impact("workflow", "list", "--limit", "1");
  t.is(shortened.stdout.trimEnd().split("\n").length, 2);
  t.regex(shortened.stderr, /Showing the first 1\. To see more, raise --limit\./u);
});

test.serial("a workflow is terminated once, with its reason", async (t) => {
  const scene = await setUp(t);
  const { impact } = scene;
  const { workflowId } = await startRefund(scene);
  t.like(readJson(await impact("workflow", "show", workflowId, "--json")), {
    workflow_id: workflowId,
    type: "refund",
    status: "running",
    result: null,
    failure: null,
  });
  const run = await impact(
    "workflow",
    "terminate",
    workflowId,
    "--reason",
    "moved to another queue",
  );
  t.is(run.exitCode, 0);
  t.like(readJson(await impact("workflow", "show", workflowId, "--json")), {
    status: "terminated",
    failure: "moved to another queue",
  });
  const again = await impact("workflow", "terminate", workflowId, "--reason", "again");
  t.is(again.exitCode, 3);
  t.is(again.stderr, `impact: Workflow ${workflowId} is not running: its status is terminated.\n`);
  const entries = z
    .array(z.unknown())
    .parse(readJson(await impact("audit", "list", "--action", "workflow.terminate", "--json")));
  t.is(entries.length, 1, "the audit log has only what was done");
});

test.serial("an unknown workflow exits with code 3 and says where to look", async (t) => {
  const scene = await setUp(t);
  const { deployment, impact } = scene;
  const { workflowId } = await startRefund(scene);
  const run = crypto.randomUUID();
  const unknown = `Temporal has no workflow ${deployment}/refund-nothing: the id is wrong, or Temporal has deleted the workflow after its retention time. See impact workflow list.`;
  for (const [args, message] of [
    [["show", "refund-nothing"], unknown],
    [["terminate", "refund-nothing", "--reason", "x"], unknown],
    [["show", workflowId, "--run", run], `${workflowId} with the run ${run}: the id is wrong`],
    [["show", "reconciliation"], `${deployment}/reconciliation: its schedule has not started one`],
  ] as const) {
    const { exitCode, stderr } = await impact("workflow", ...args);
    t.is(exitCode, 3);
    t.true(stderr.includes(message), stderr);
  }
});

test.serial("a namespace that Temporal does not have is named with its setting", async (t) => {
  const { settings } = await setUp(t);
  const env = { ...settings, TEMPORAL_NAMESPACE: "elsewhere" };
  for (const args of [
    ["workflow", "list"],
    ["workflow", "show", "reconciliation"],
    ["workflow", "show", "refund-nothing"],
    ["workflow", "terminate", "refund-nothing", "--reason", "x"],
    ["doctor"],
  ]) {
    const { exitCode, stdout, stderr } = await runImpact(args, { env });
    t.is(exitCode, args[0] === "doctor" ? 1 : 4);
    t.regex(stdout + stderr, /Temporal has no namespace elsewhere\. Check TEMPORAL_NAMESPACE/u);
  }
});

test.serial(
  "ids are accepted with and without the deployment's name, and not with another's",
  async (t) => {
    const scene = await setUp(t);
    const { deployment, impact } = scene;
    const { workflowId } = await startRefund(scene);
    const short = workflowId.slice(deployment.length + 1);
    await scene.client.workflow.start(refund, {
      workflowId: `ffffffff/${short}`,
      taskQueue: "without-workers",
      args: [crypto.randomUUID()],
    });

    for (const given of [short, workflowId]) {
      t.like(readJson(await impact("workflow", "show", given, "--json")), {
        workflow_id: workflowId,
      });
    }
    for (const args of [["show"], ["terminate", "--reason", "x"]]) {
      const [command = "", ...options] = args;
      const run = await impact("workflow", command, `ffffffff/${short}`, ...options);
      t.is(run.exitCode, 3);
      t.regex(run.stderr, /belongs to the deployment ffffffff/u);
    }
    await eventually(async () => {
      const run = await impact("workflow", "list", "--json");
      return listed.parse(readJson(run)).length > 0;
    });
    t.deepEqual(
      listed
        .parse(readJson(await impact("workflow", "list", "--json")))
        .map((row) => row.workflow_id),
      [workflowId],
    );
    t.is((await impact("workflow", "terminate", short, "--reason", "x")).exitCode, 0);
  },
);

test.serial("the id of a schedule's workflow is that of the latest run", async (t) => {
  const { client, deployment, impact } = await setUp(t);
  const start = (time: string) =>
    client.workflow.start(reconciliation, {
      workflowId: `${reconciliationId(deployment)}-${time}`,
      taskQueue: "without-workers",
    });
  const earlier = await start("2026-05-15T01:30:00Z");
  await earlier.terminate();
  const latest = await start("2026-05-16T01:30:00Z");
  // Temporal's list is eventually consistent.
  await eventually(async () => {
    const shown = await impact("workflow", "show", "reconciliation", "--json");
    return shown.exitCode === 0 && shown.stdout.includes(latest.workflowId);
  });

  t.is((await impact("workflow", "show", "subscription-sweep")).exitCode, 3);
  const retention = await impact("workflow", "show", "retention");
  t.is(retention.exitCode, 3);
  t.regex(retention.stderr, /its schedule has not started one yet/u);
  t.is((await impact("workflow", "terminate", "reconciliation", "--reason", "x")).exitCode, 0);
  t.is((await latest.describe()).status.name, "TERMINATED");
});
