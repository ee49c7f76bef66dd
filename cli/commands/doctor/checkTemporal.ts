import type { Client } from "@temporalio/client";
import { readDeployment, readServerMark } from "../../../db/billing/deployment.ts";
import { deploymentNameOf } from "../../../domain/billing/deployment.ts";
import { usesOtherDatabase } from "../../../program/temporal/workerIdentity.ts";
import { backgroundQueue, interactiveQueue, webhookQueue } from "../../../workflows/taskQueues.ts";
import { callTemporal } from "../../callTemporal.ts";
import type { CliContext } from "../../context.ts";
import { check, checkWithDatabase, ok, skipped, START_WORKER, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

/** A worker's poll takes up to 70 s, so a longer silence means that it has stopped. */
const POLLED_WITHIN_SECONDS = 90;

/** Temporal's numbers of the task queue types. */
const QUEUE_TYPES = { workflows: 1, activities: 2 } as const;

const QUEUES = {
  background: backgroundQueue,
  interactive: interactiveQueue,
  webhooks: webhookQueue,
} as const;

/** Returns the identities of the workers that poll a task queue. */
const listPollers = async (
  temporal: Client,
  taskQueue: string,
  taskQueueType: 1 | 2,
  nowSeconds: number,
): Promise<readonly string[]> => {
  const { pollers } = await callTemporal(temporal, () =>
    temporal.workflowService.describeTaskQueue({
      namespace: temporal.options.namespace,
      taskQueue: { name: taskQueue },
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package that we do not depend on.
      taskQueueType,
    }),
  );
  return pollers
    .filter(
      ({ lastAccessTime }) =>
        nowSeconds - Number(lastAccessTime?.seconds ?? 0) <= POLLED_WITHIN_SECONDS,
    )
    .map(({ identity }) => identity ?? "");
};

const checkWorkers = (
  context: CliContext,
  name: string,
  queueOf: (deployment: string) => string,
): Promise<Finding> =>
  checkWithDatabase(context, name, async () => {
    const { connections, clock } = context;
    const db = await connections.database();
    const deployment = await readDeployment(db);
    if (deployment.isServerChanged) {
      return skipped("workers do not poll yet; see the deployment check");
    }
    const taskQueue = queueOf(deploymentNameOf(deployment));
    const temporal = await connections.temporal();
    const nowSeconds = clock.now().getTime() / 1000;
    const mark = await readServerMark(db);
    const counts: string[] = [];
    for (const [tasks, type] of Object.entries(QUEUE_TYPES)) {
      const pollers = await listPollers(temporal, taskQueue, type, nowSeconds);
      const stranger = pollers.find((identity) => usesOtherDatabase(identity, mark));
      if (stranger !== undefined) {
        return wrong(
          `the worker ${stranger} polls this deployment's task queues but uses another database. If you have just stopped it, wait two minutes. Otherwise one of the two databases is a copy: stop its programs and run \`impact deployment separate\` with it`,
        );
      }
      if (pollers.length === 0) {
        return wrong(`no worker polls for ${tasks}; ${START_WORKER}`);
      }
      counts.push(`${pollers.length} for ${tasks}`);
    }
    return ok(`pollers: ${counts.join(", ")}`);
  });

/** Checks Temporal, its namespace and that workers poll all task queues. */
export const checkTemporal = async (context: CliContext): Promise<readonly Finding[]> => {
  const reachable = await check("Temporal", async () => {
    const temporal = await context.connections.temporal();
    const { namespace } = temporal.options;
    await callTemporal(temporal, () => temporal.workflowService.describeNamespace({ namespace }));
    return ok(`namespace ${namespace}`);
  });
  const workers: Finding[] = [];
  for (const [queue, queueOf] of Object.entries(QUEUES)) {
    const name = `worker (${queue})`;
    workers.push(
      reachable.status === "ok"
        ? await checkWorkers(context, name, queueOf)
        : { check: name, ...skipped("Temporal cannot be reached") },
    );
  }
  return [reachable, ...workers];
};
