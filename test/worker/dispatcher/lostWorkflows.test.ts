import { WorkflowNotFoundError } from "@temporalio/client";
import type { Client } from "@temporalio/client";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { disableEndpoint } from "../../../modules/events/endpoints.sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { getDeploymentName } from "../../../modules/billing/deploymentName.ts";
import { processorEvents } from "../../../workflows/processorEvents.ts";
import {
  processorEventsId,
  usageShardWorkflowId,
  webhookShardWorkflowId,
} from "../../../runtime/temporalNames.rules.ts";
import { webhookShard } from "../../../workflows/shards.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually, openNamespace } from "../../support/programs.ts";
import { setUpWebhooks } from "../../events/webhookScene.ts";
import { startDispatcher } from "./dispatching.ts";

// Serial, because a database has one lease, so only one of its dispatchers leads.
const test = testWithDatabase();

const HOUR_MS = 60 * 60 * 1000;

/** Returns the id of the run that is running; null if none is. */
const findRunning = async (temporal: Client, workflowId: string): Promise<string | null> => {
  try {
    const { runId, status } = await temporal.workflow.getHandle(workflowId).describe();
    return status.name === "RUNNING" ? runId : null;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return null;
    }
    throw error;
  }
};

test.serial("what is still pending at a disabled endpoint ends", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const { deps, endpoint, record, deliveries } = await setUpWebhooks(t);
  await record("first");
  await disableEndpoint(db, endpoint.id, "requested", deps.clock.now());
  t.like(await deliveries(), [{ state: "pending" }]);

  await startDispatcher(t, { db, temporal });
  await eventually(async () => (await deliveries())[0]?.state === "failed");
  t.pass();
});

test.serial("a delivery from before the clock was set back is soon due", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const { deps, record, pass, deliveries } = await setUpWebhooks(t);
  await record("first");
  pass(-HOUR_MS);
  const now = deps.clock.now();

  await startDispatcher(t, { db, temporal, clock: deps.clock });

  await eventually(async () => (await deliveries())[0]?.dueAt?.getTime() === now.getTime());
  t.pass();
});

test.serial(
  "the sender of a shard of webhooks that never looks for deliveries is restarted",
  async (t) => {
    const { db } = t.context;
    const { client: temporal } = await openNamespace(t);
    const deployment = await getDeploymentName({ db, clock: systemClock });
    const workflowId = webhookShardWorkflowId(deployment, 1);
    const stuck = await temporal.workflow.start(webhookShard, {
      workflowId,
      taskQueue: "without-workers",
      args: [1],
    });

    await startDispatcher(t, { db, temporal, wakesUntilStuck: 1 });

    await eventually(async () => {
      const running = await findRunning(temporal, workflowId);
      return running !== null && running !== stuck.firstExecutionRunId;
    });
    const first = temporal.workflow.getHandle(workflowId, stuck.firstExecutionRunId);
    t.is((await first.describe()).status.name, "TERMINATED");
  },
);

test.serial("a workflow that processes no events of the processor is restarted", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const now = systemClock.now();
  await insertProcessorEvent(
    db,
    { id: "evt_1", type: "customer.subscription.updated", objectId: "sub_1", createdAt: now },
    now,
  );
  const workflowId = processorEventsId(await getDeploymentName({ db, clock: systemClock }));
  const stuck = await temporal.workflow.start(processorEvents, {
    workflowId,
    taskQueue: "without-workers",
  });

  await startDispatcher(t, { db, temporal, wakesUntilStuck: 1 });

  await eventually(async () => {
    const running = await findRunning(temporal, workflowId);
    return running !== null && running !== stuck.firstExecutionRunId;
  });
  const first = temporal.workflow.getHandle(workflowId, stuck.firstExecutionRunId);
  t.is((await first.describe()).status.name, "TERMINATED");
});

test.serial(
  "the sender of a shard is started if it looked for usage before PostgreSQL's clock was set back",
  async (t) => {
    const { db } = t.context;
    const { client: temporal } = await openNamespace(t);
    await db.query(sql.typeAlias("void")`
      INSERT INTO shard (kind, number, last_pass_at)
      VALUES ('usage', 2, now() + interval '1 hour')
      ON CONFLICT (kind, number) DO UPDATE SET last_pass_at = excluded.last_pass_at
    `);
    const deployment = await getDeploymentName({ db, clock: systemClock });

    await startDispatcher(t, { db, temporal });

    await eventually(
      async () => (await findRunning(temporal, usageShardWorkflowId(deployment, 2))) !== null,
    );
    t.pass();
  },
);
