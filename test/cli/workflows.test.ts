import { z } from "zod";
import { refundWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { refund } from "../../workflows/refund.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { runImpact } from "./runImpact.ts";
import { setUp } from "./workflowSetup.ts";

const test = testWithDatabase();

const startRefund = async ({ client, deployment }: Awaited<ReturnType<typeof setUp>>) => {
  const id = crypto.randomUUID();
  const workflowId = refundWorkflowId(deployment, id);
  await client.workflow.start(refund, { workflowId, taskQueue: "without-workers", args: [id] });
  return { workflowId };
};

const listed = z.array(z.looseObject({ workflow_id: z.string(), status: z.string() }));

test.serial("workflows are listed by type and status", async (t) => {
  const scene = await setUp(t);
  const { impact } = scene;
  const one = await startRefund(scene);
  const other = await startRefund(scene);
  const list = async (...filter: readonly string[]): Promise<readonly string[]> => {
    const rows = listed.parse(await impact.json("workflow", "list", ...filter));
    return rows.map(({ workflow_id: id }) => id);
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

test.serial("a workflow is shown with its outcome", async (t) => {
  const scene = await setUp(t);
  const { impact } = scene;
  const { workflowId } = await startRefund(scene);
  t.like(await impact.json("workflow", "show", workflowId), {
    workflow_id: workflowId,
    type: "refund",
    status: "running",
    result: null,
    failure: null,
  });
  await scene.client.workflow.getHandle(workflowId).terminate("moved to another queue");
  t.like(await impact.json("workflow", "show", workflowId), {
    status: "terminated",
    failure: "moved to another queue",
  });
});

test.serial("an unknown workflow exits with code 3 and says where to look", async (t) => {
  const scene = await setUp(t);
  t.is(
    await scene.impact.fails(3, "workflow", "show", "refund-nothing"),
    `impact: Temporal has no workflow ${scene.deployment}/refund-nothing: the id is wrong, or Temporal has deleted the workflow after its retention time. See impact workflow list.\n`,
  );
});

test.serial("a namespace that Temporal does not have is named", async (t) => {
  const { settings } = await setUp(t);
  const env = { ...settings, TEMPORAL_NAMESPACE: "elsewhere" };
  for (const args of [["workflow", "list"], ["workflow", "show", "refund-nothing"], ["doctor"]]) {
    const { exitCode, stdout, stderr } = await runImpact(args, { env });
    t.is(exitCode, args[0] === "doctor" ? 1 : 4);
    t.regex(stdout + stderr, /namespace[^\n]* '?elsewhere/iu);
  }
});

test.serial("short ids are accepted, and others' workflows are not listed", async (t) => {
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
    t.like(await impact.json("workflow", "show", given), { workflow_id: workflowId });
  }
  const list = async () => listed.parse(await impact.json("workflow", "list"));
  await eventually(async () => (await list()).length > 0);
  t.deepEqual(
    (await list()).map((row) => row.workflow_id),
    [workflowId],
  );
});
