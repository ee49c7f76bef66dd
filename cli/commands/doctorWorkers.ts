import type { Client } from "@temporalio/client";
import { readDeployment, readServerMark } from "../../modules/billing/deployment.sql.ts";
import { hasLiveLedgerUsage } from "../../modules/billing/usageFacts.sql.ts";
import { listShardStatuses } from "../../db/shards.sql.ts";
import { findLastDisabled, findOldestDelivery } from "../../modules/events/endpointHealth.sql.ts";
import {
  HOLD_ADVICE,
  UNDECIDED_COPY,
  decideProcessor,
  deploymentNameOf,
  describeAccount,
  describeHold,
  findHold,
} from "../../modules/billing/deployment.rules.ts";
import type { LiveProcessor } from "../../modules/billing/deployment.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import type { ShardKind } from "../../db/shards.rules.ts";
import { usesOtherDatabase } from "../../modules/billing/holdUsage.ts";
import { backgroundQueue, interactiveQueue } from "../../runtime/temporalNames.rules.ts";
import { callTemporal } from "../callTemporal.ts";
import type { CliContext } from "../context.ts";
import { formatTime } from "../output/formatTable.ts";
import {
  START_WORKER,
  check,
  checkWithDatabase,
  ok,
  skipped,
  warning,
  wrong,
} from "./doctorFindings.ts";
import type { Finding } from "./doctorFindings.ts";

/** A worker's poll takes up to 70 s, so a longer silence means that it has stopped. */
const POLLED_WITHIN_SECONDS = 90;

/** Temporal's numbers of the task queue types. */
const QUEUE_TYPES = { workflows: 1, activities: 2 } as const;

const QUEUES = {
  background: backgroundQueue,
  interactive: interactiveQueue,
} as const;

/** A worker that has stopped is listed for longer, and a restore stops the workers of the lost database. */
const STRANGER_WITHIN_SECONDS = 30;

type Poller = { readonly identity: string; readonly ageSeconds: number };

/** Returns the workers that poll a task queue. */
const listPollers = async (
  temporal: Client,
  taskQueue: string,
  taskQueueType: 1 | 2,
  nowSeconds: number,
): Promise<readonly Poller[]> => {
  const { pollers } = await callTemporal(temporal, () =>
    temporal.workflowService.describeTaskQueue({
      namespace: temporal.options.namespace,
      taskQueue: { name: taskQueue },
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package that we do not depend on.
      taskQueueType,
    }),
  );
  return pollers
    .map(({ identity, lastAccessTime }) => ({
      identity: identity ?? "",
      ageSeconds: nowSeconds - Number(lastAccessTime?.seconds ?? 0),
    }))
    .filter(({ ageSeconds }) => ageSeconds <= POLLED_WITHIN_SECONDS);
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
      const strangers = pollers.filter(({ identity }) => usesOtherDatabase(identity, mark));
      const stranger = strangers.find(({ ageSeconds }) => ageSeconds < STRANGER_WITHIN_SECONDS);
      if (stranger) {
        return wrong(
          `the worker ${stranger.identity} polls this deployment's task queues but uses another database. If you have just stopped it, wait half a minute. Otherwise one of the two databases is a copy: stop its programs and run \`impact deployment separate\` with it`,
        );
      }
      if (pollers.length === strangers.length) {
        return wrong(`no worker polls for ${tasks}; ${START_WORKER}`);
      }
      counts.push(`${pollers.length - strangers.length} for ${tasks}`);
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

const readConfigured = async ({ connections }: CliContext): Promise<LiveProcessor> => {
  const stripe = await connections.stripe();
  return stripe ? { name: "stripe", account: await stripe.readAccount() } : { name: "ledger" };
};

/** Checks that an operator has decided whose workflows a restored, promoted or copied database has. */
const checkName = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "deployment", async () => {
    const deployment = await readDeployment(await context.connections.database());
    return deployment.isServerChanged
      ? wrong(UNDECIDED_COPY)
      : ok(`${deploymentNameOf(deployment)} is its name in Temporal`);
  });

const checkHold = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "usage hold", async () => {
    const hold = findHold(await readDeployment(await context.connections.database()));
    return hold ? wrong(`${describeHold(hold)}. ${HOLD_ADVICE}`) : ok("none");
  });

/** Checks that this process would bill with the deployment's processor and Stripe account. */
const checkProcessor = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "billing processor", async () => {
    const db = await context.connections.database();
    const { processor, originalStripeAccountId } = await readDeployment(db);
    const decision = decideProcessor(processor, await readConfigured(context), {
      ledgerHasLiveUsage: await hasLiveLedgerUsage(db),
      originalStripeAccountId,
    });
    if (decision.kind === "mismatch") {
      return wrong(decision.problem);
    }
    if (processor === null || decision.kind === "record") {
      return ok("the next worker that starts records its own");
    }
    return ok(
      processor.name === "stripe" ? describeAccount(processor.account) : "the built-in ledger",
    );
  });

/** The work of a worker that was killed is continued by another one within about 15 seconds. */
const TOLERATED_SILENCE_SECONDS = 60;

const SHARD_CHECKS = {
  dispatcher: { name: "dispatcher", work: "waiting work", workflowType: "dispatcher" },
  usage: { name: "usage senders", work: "usage", workflowType: "usageShard" },
  webhooks: { name: "webhook senders", work: "deliveries", workflowType: "webhookShard" },
} as const satisfies Record<ShardKind, unknown>;

/** Checks that all perpetual workflows of a kind look for work. */
const checkShards = (context: CliContext, kind: ShardKind): Promise<Finding> => {
  const { name, work, workflowType } = SHARD_CHECKS[kind];
  return checkWithDatabase(context, name, async () => {
    const statuses = await listShardStatuses(await context.connections.database(), kind);
    const passed = statuses.filter(({ hasPassed }) => hasPassed).length;
    const all = statuses.length;
    if (passed < all) {
      return wrong(
        `${counted(passed, `of ${all} has`, `of ${all} have`)} looked for ${work} so far, so no worker may be running; ${START_WORKER}`,
      );
    }
    const oldestSeconds = Math.max(...statuses.map(({ ageSeconds }) => ageSeconds));
    const last = `${all === 1 ? "it has" : `all ${all} have`} looked for ${work} in the last ${Math.ceil(oldestSeconds)} s`;
    return oldestSeconds <= TOLERATED_SILENCE_SECONDS
      ? ok(last)
      : wrong(`${last}. See \`impact workflow list --type ${workflowType}\``);
  });
};

/** Checks whose the database is, that a worker dispatches, that senders look for usage and deliveries, the deployment's processor, and whether usage is held. */
export const checkDeployment = async (context: CliContext): Promise<readonly Finding[]> => [
  await checkName(context),
  await checkShards(context, "dispatcher"),
  await checkShards(context, "usage"),
  await checkShards(context, "webhooks"),
  await checkProcessor(context),
  await checkHold(context),
];

/** A delivery that waits longer has failed several times. */
const TOLERATED_DELIVERY_AGE_MS = HOUR_MS;

const checkDisabled = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "webhook endpoints", async () => {
    const latest = await findLastDisabled(await context.connections.database());
    if (latest === null) {
      return ok("none is disabled because of its responses");
    }
    const { id, url, disabledAt, count } = latest;
    const since = disabledAt.toISOString();
    return warning(
      `${counted(count, "is", "are")} disabled because of failures, the latest (${url}) since ${formatTime(disabledAt)}; once its server works: ` +
        `\`impact webhook update ${id} --enable\`, then \`impact webhook recover ${id} --since ${since}\``,
    );
  });

const checkOldest = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "webhook deliveries", async () => {
    const oldest = await findOldestDelivery(await context.connections.database());
    if (oldest === null) {
      return ok("none is undelivered");
    }
    const { id, url, createdAt } = oldest;
    const detail = `the oldest undelivered one is of ${formatTime(createdAt)}, to ${url}`;
    return context.clock.now().getTime() - createdAt.getTime() <= TOLERATED_DELIVERY_AGE_MS
      ? ok(detail)
      : warning(`${detail}; see \`impact webhook deliveries ${id} --state pending\``);
  });

/** Checks that webhooks arrive: disabled endpoints, and the age of the oldest undelivered delivery. */
export const checkWebhooks = (context: CliContext): Promise<readonly Finding[]> =>
  Promise.all([checkDisabled(context), checkOldest(context)]);
