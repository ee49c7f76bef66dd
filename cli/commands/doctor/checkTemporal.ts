import type { Client } from "@temporalio/client";
import { BACKGROUND_QUEUE, INTERACTIVE_QUEUE } from "../../../workflows/taskQueues.ts";
import { callTemporal } from "../../callTemporal.ts";
import type { Context } from "../../context.ts";
import { check, ok, skipped, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

/** A worker's poll takes up to 70 s, so a longer silence means that it has stopped. */
const POLLED_WITHIN_SECONDS = 90;

/** Temporal's numbers of the task queue types. */
const QUEUE_TYPES = { workflows: 1, activities: 2 } as const;

const countPollers = async (
  temporal: Client,
  taskQueue: string,
  taskQueueType: 1 | 2,
  nowSeconds: number,
): Promise<number> => {
  const { pollers } = await callTemporal(temporal, () =>
    temporal.workflowService.describeTaskQueue({
      namespace: temporal.options.namespace,
      taskQueue: { name: taskQueue },
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package that we do not depend on.
      taskQueueType,
    }),
  );
  return pollers.filter(
    ({ lastAccessTime }) =>
      nowSeconds - Number(lastAccessTime?.seconds ?? 0) <= POLLED_WITHIN_SECONDS,
  ).length;
};

const checkWorkers = ({ connections, clock }: Context, taskQueue: string): Promise<Finding> =>
  check(`worker (${taskQueue})`, async () => {
    const temporal = await connections.temporal();
    const nowSeconds = clock.now().getTime() / 1000;
    const counts: string[] = [];
    for (const [name, type] of Object.entries(QUEUE_TYPES)) {
      const pollers = await countPollers(temporal, taskQueue, type, nowSeconds);
      if (pollers === 0) {
        return wrong(
          `no worker polls for ${name}; start one with \`npm run worker\` or \`npm start\``,
        );
      }
      counts.push(`${pollers} for ${name}`);
    }
    return ok(`pollers: ${counts.join(", ")}`);
  });

/** Checks Temporal, its namespace and that workers poll both task queues. */
export const checkTemporal = async (context: Context): Promise<readonly Finding[]> => {
  const reachable = await check("Temporal", async () => {
    const temporal = await context.connections.temporal();
    const { namespace } = temporal.options;
    await callTemporal(temporal, () => temporal.workflowService.describeNamespace({ namespace }));
    return ok(`namespace ${namespace}`);
  });
  const workers: Finding[] = [];
  for (const queue of [BACKGROUND_QUEUE, INTERACTIVE_QUEUE]) {
    workers.push(
      reachable.status === "ok"
        ? await checkWorkers(context, queue)
        : { check: `worker (${queue})`, ...skipped("Temporal cannot be reached") },
    );
  }
  return [reachable, ...workers];
};
