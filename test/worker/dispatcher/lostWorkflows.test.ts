import type { ExecutionContext } from "ava";
import type { Client } from "@temporalio/client";
import { pino } from "pino";
import { PERPETUAL_KINDS } from "../../../runtime/perpetualWork.rules.ts";
import type { PerpetualKind } from "../../../runtime/perpetualWork.rules.ts";
import { recordPass } from "../../../db/perpetualWork.sql.ts";
import { sql } from "../../../db/sql.ts";
import { getDeploymentName } from "../../../modules/billing/holdUsage.ts";
import { systemClock } from "../../../runtime/clock.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { inDeployment } from "../../../runtime/temporalNames.rules.ts";
import { perpetualWork } from "../../../workflows/perpetualWork.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { eventually, openNamespace } from "../../support/programs.ts";
import { findRunning, startEnsuring } from "./dispatching.ts";

// Serial, because the workflows serve everything that waits in the database of the file.
const test = testWithDatabase();

/** A clock at which Temporal has started nothing for longer than an activity lasts. */
const later: Clock = { now: () => new Date(systemClock.now().getTime() + 5 * 60 * 1000) };

const forgetPasses = async ({ db }: DatabaseContext): Promise<void> => {
  await db.query(sql.typeAlias("void")`DELETE FROM perpetual_work`);
};

/** Starts a workflow whose next task never runs. */
const startStuck = async (
  { db }: DatabaseContext,
  temporal: Client,
  kind: PerpetualKind,
): Promise<{ readonly workflowId: string; readonly runId: string }> => {
  const workflowId = inDeployment(await getDeploymentName({ db, clock: systemClock }), kind);
  const { firstExecutionRunId } = await temporal.workflow.start(perpetualWork, {
    workflowId,
    taskQueue: "without-workers",
    args: [kind],
  });
  return { workflowId, runId: firstExecutionRunId };
};

const restarts = test.macro({
  exec: async (t: ExecutionContext<DatabaseContext>, kind: PerpetualKind) => {
    const { db } = t.context;
    await forgetPasses(t.context);
    const { client: temporal } = await openNamespace(t);
    const { workflowId, runId } = await startStuck(t.context, temporal, kind);

    await startEnsuring(t, { db, temporal, clock: later });

    await eventually(async () => {
      const running = await findRunning(temporal, workflowId);
      return running !== null && running !== runId;
    });
    const first = temporal.workflow.getHandle(workflowId, runId);
    t.is((await first.describe()).status.name, "TERMINATED");
  },
  title: (_, kind) => `the workflow of the ${kind} is restarted if its next task never runs`,
});
test.serial(restarts, "usage-sender");
test.serial(restarts, "dispatcher");

test.serial(
  "a stuck workflow is restarted although it looked for work before PostgreSQL's clock was set back",
  async (t) => {
    const { db } = t.context;
    const { client: temporal } = await openNamespace(t);
    const { workflowId, runId } = await startStuck(t.context, temporal, "dispatcher");
    await recordPass(db, "dispatcher");
    await db.query(
      sql.typeAlias("void")`UPDATE perpetual_work SET last_pass_at = now() + interval '1 hour'`,
    );

    await startEnsuring(t, { db, temporal, clock: later });

    await eventually(async () => ![null, runId].includes(await findRunning(temporal, workflowId)));
    t.pass();
  },
);

test.serial("workflows that were terminated are started again", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const deployment = await getDeploymentName({ db, clock: systemClock });
  const ids = PERPETUAL_KINDS.map((kind) => inDeployment(deployment, kind));
  await startEnsuring(t, { db, temporal, checkIntervalMs: 200 });
  for (const workflowId of ids) {
    await eventually(async () => (await findRunning(temporal, workflowId)) !== null);
    await temporal.workflow.getHandle(workflowId).terminate("the test");
  }

  for (const workflowId of ids) {
    await eventually(async () => (await findRunning(temporal, workflowId)) !== null);
  }
  t.pass();
});

test.serial(
  "a workflow that Temporal has just started is not restarted, and each check logs that it does no work",
  async (t) => {
    const { db } = t.context;
    await forgetPasses(t.context);
    const { client: temporal } = await openNamespace(t);
    const { workflowId, runId } = await startStuck(t.context, temporal, "dispatcher");
    const lines: Readonly<Record<string, unknown>>[] = [];
    await startEnsuring(t, {
      db,
      temporal,
      checkIntervalMs: 200,
      // The test parses what the worker has logged.
      logger: pino({ level: "info" }, { write: (line) => lines.push(JSON.parse(line)) }),
    });
    const ofDispatcher = () => lines.filter((line) => line["workflowId"] === workflowId);

    await eventually(() => Promise.resolve(ofDispatcher().length >= 3));

    t.is(await findRunning(temporal, workflowId), runId);
    t.like(ofDispatcher()[2], {
      level: 50,
      isRestarted: false,
      msg: "a workflow has not looked for work; usage, refunds or events wait in the database",
    });
  },
);

test.serial("a workflow that looks for work is neither restarted nor logged", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const { workflowId, runId } = await startStuck(t.context, temporal, "dispatcher");
  await recordPass(db, "dispatcher");
  const lines: string[] = [];
  await startEnsuring(t, {
    db,
    temporal,
    clock: later,
    silentAfterMs: 60_000,
    logger: pino({ level: "info" }, { write: (line) => lines.push(line) }),
  });
  const deployment = await getDeploymentName({ db, clock: systemClock });
  // All workflows are ensured before the schedules.
  await eventually(
    async () =>
      (await temporal.schedule
        .getHandle(`${deployment}/retention-nightly`)
        .describe()
        .catch(() => null)) !== null,
  );

  t.is(await findRunning(temporal, workflowId), runId);
  t.deepEqual(lines, []);
});
