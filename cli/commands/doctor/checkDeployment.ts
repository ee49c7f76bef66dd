import { readDispatcherStatus } from "../../../db/billing/sending/dispatcherLease.ts";
import { countFailedProcessorEvents } from "../../../db/billing/processorEvents/processorEvents.ts";
import { readDeployment } from "../../../db/billing/deployment.ts";
import { hasLiveLedgerUsage } from "../../../db/billing/ledgerUsage.ts";
import { listShardStatuses } from "../../../db/shards.ts";
import {
  decideProcessor,
  deploymentNameOf,
  describeAccount,
  describeHold,
  findHold,
  HOLD_ADVICE,
  UNDECIDED_COPY,
} from "../../../domain/billing/deployment.ts";
import { SHARDS } from "../../../domain/shards.ts";
import type { ShardKind } from "../../../domain/shards.ts";
import type { LiveProcessor } from "../../../domain/billing/deployment.ts";
import { counted } from "../../../domain/counted.ts";
import type { CliContext } from "../../context.ts";
import { checkWithDatabase, ok, START_WORKER, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

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

const checkEvents = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "Stripe events", async () => {
    const failed = await countFailedProcessorEvents(await context.connections.database());
    return failed === 0
      ? ok("none has failed")
      : wrong(`${failed} could not be processed; see \`impact deployment list-events\``);
  });

/** A leader that was killed is replaced within 15 seconds. */
const TOLERATED_SILENCE_SECONDS = 60;

const checkDispatcher = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "dispatcher", async () => {
    const status = await readDispatcherStatus(await context.connections.database());
    const { holder, isHeld, lastPassAgeSeconds } = status;
    const last = `the last complete pass was ${Math.round(lastPassAgeSeconds)} s ago`;
    if (holder === null) {
      return wrong(`no worker has dispatched yet; ${START_WORKER}`);
    }
    const leader = isHeld
      ? `${holder} is the leader`
      : `no worker is the leader; the last one was ${holder}`;
    return lastPassAgeSeconds <= TOLERATED_SILENCE_SECONDS
      ? ok(`${leader}; ${last}`)
      : wrong(`${leader}; ${last}. The workers' logs say why`);
  });

const SHARD_CHECKS = {
  usage: { name: "usage senders", work: "usage", workflowType: "usageShard" },
  webhooks: { name: "webhook senders", work: "deliveries", workflowType: "webhookShard" },
} as const satisfies Record<ShardKind, unknown>;

/** A shard of a worker that was killed has another one within about 15 seconds. */
const checkShards = (context: CliContext, kind: ShardKind): Promise<Finding> => {
  const { name, work, workflowType } = SHARD_CHECKS[kind];
  return checkWithDatabase(context, name, async () => {
    const statuses = await listShardStatuses(await context.connections.database(), kind);
    if (statuses.length < SHARDS) {
      return wrong(
        `${counted(statuses.length, `of ${SHARDS} has`, `of ${SHARDS} have`)} looked for ${work} so far, so no worker may be running; ${START_WORKER}`,
      );
    }
    const oldestSeconds = Math.max(...statuses.map(({ ageSeconds }) => ageSeconds));
    const last = `all ${SHARDS} have looked for ${work} in the last ${Math.ceil(oldestSeconds)} s`;
    return oldestSeconds <= TOLERATED_SILENCE_SECONDS
      ? ok(last)
      : wrong(`${last}. See \`impact workflow list --type ${workflowType}\``);
  });
};

/** Checks whose the database is, that a worker dispatches, that senders look for usage and deliveries, the deployment's processor, whether usage is held, and whether events of the processor have failed. */
export const checkDeployment = async (context: CliContext): Promise<readonly Finding[]> => [
  await checkName(context),
  await checkDispatcher(context),
  await checkShards(context, "usage"),
  await checkShards(context, "webhooks"),
  await checkProcessor(context),
  await checkHold(context),
  await checkEvents(context),
];
