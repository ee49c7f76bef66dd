import type { Client } from "@temporalio/client";
import { hasLiveLedgerUsage, readDeployment } from "../../modules/billing/deployment.sql.ts";
import { listLastPasses } from "../../db/perpetualWork.sql.ts";
import { countEndpointStates } from "../../modules/events/endpoints.sql.ts";
import {
  HOLD_ADVICE,
  UNDECIDED_COPY,
  findProcessorProblem,
  deploymentNameOf,
  describeAccount,
  describeHold,
} from "../../modules/billing/deployment.rules.ts";
import { counted, grouped } from "../../runtime/counted.rules.ts";
import type { PerpetualKind } from "../../runtime/perpetualWork.rules.ts";
import { usesOtherDatabase } from "../../modules/billing/holdUsage.ts";
import { backgroundQueue, interactiveQueue } from "../../runtime/temporalNames.rules.ts";
import { callTemporal } from "../callTemporal.ts";
import { START_WORKER, ok, skipped, warning, wrong } from "./doctorFindings.ts";
import type { Checks, DatabaseContext, Result } from "./doctorFindings.ts";
import type { Cli } from "../command.ts";

/** A worker's poll takes up to 70 s, so a longer silence means that it has stopped. */
const POLLED_WITHIN_SECONDS = 90;

/** Temporal's number of the queues of activities. Each worker polls for workflows, too. */
const ACTIVITIES = 2;

/** A worker that has stopped is listed for longer, and a restore stops the workers of the lost database. */
const STRANGER_WITHIN_SECONDS = 30;

const listPollers = async (temporal: Client, taskQueue: string, nowSeconds: number) => {
  const { pollers } = await callTemporal(temporal, () =>
    temporal.workflowService.describeTaskQueue({
      namespace: temporal.options.namespace,
      taskQueue: { name: taskQueue },
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package that we do not depend on.
      taskQueueType: ACTIVITIES,
    }),
  );
  return pollers
    .map(({ identity, lastAccessTime }) => ({
      identity: identity ?? "",
      ageSeconds: nowSeconds - Number(lastAccessTime?.seconds ?? 0),
    }))
    .filter(({ ageSeconds }) => ageSeconds <= POLLED_WITHIN_SECONDS);
};

const checkWorkers = async (
  { db, connections, clock }: DatabaseContext,
  queueOf: (deployment: string) => string,
): Promise<Result> => {
  const deployment = await readDeployment(db);
  if (deployment.isServerChanged) {
    return skipped("workers do not poll yet; see the deployment check");
  }
  const taskQueue = queueOf(deploymentNameOf(deployment));
  const temporal = await connections.temporal();
  const nowSeconds = clock.now().getTime() / 1000;
  const pollers = await listPollers(temporal, taskQueue, nowSeconds);
  const strangers = pollers.filter(({ identity }) => usesOtherDatabase(identity, deployment));
  const stranger = strangers.find(({ ageSeconds }) => ageSeconds < STRANGER_WITHIN_SECONDS);
  if (stranger) {
    return wrong(
      `the worker ${stranger.identity} polls this deployment's task queues but uses another database. If you have just stopped it, wait half a minute. Otherwise one of the two databases is a copy: stop its programs and run \`impact usage hold\` and \`impact usage resume --as-copy\` with it`,
    );
  }
  const own = pollers.length - strangers.length;
  return own === 0
    ? wrong(`no worker polls; ${START_WORKER}`)
    : ok(counted(own, "worker polls", "workers poll"));
};

export const WORKER_CHECKS: Checks<DatabaseContext> = {
  "worker (background)": (context) => checkWorkers(context, backgroundQueue),
  "worker (interactive)": (context) => checkWorkers(context, interactiveQueue),
};

export const checkTemporal = async ({ connections }: Cli): Promise<Result> => {
  const temporal = await connections.temporal();
  const { namespace } = temporal.options;
  await callTemporal(temporal, () => temporal.workflowService.describeNamespace({ namespace }));
  return ok(`namespace ${namespace}`);
};

/** Checks that usage is not held, and that an operator has decided whose workflows a restored, promoted or copied database has. */
const checkDeployment = async ({ db }: DatabaseContext): Promise<Result> => {
  const deployment = await readDeployment(db);
  const { hold } = deployment;
  if (deployment.isServerChanged) {
    return wrong(UNDECIDED_COPY);
  }
  return hold
    ? wrong(`${describeHold(hold)}. ${HOLD_ADVICE}`)
    : ok(`${deploymentNameOf(deployment)} is its name in Temporal`);
};

/** Checks that this process would bill with the deployment's processor and Stripe account. */
const checkProcessor = async (context: DatabaseContext): Promise<Result> => {
  const { db } = context;
  const { processor, originalStripeAccountId } = await readDeployment(db);
  const configured = await context.connections.configured();
  const problem = findProcessorProblem(processor, configured, {
    ledgerHasLiveUsage: await hasLiveLedgerUsage(db),
    originalStripeAccountId,
  });
  if (problem !== null) {
    return wrong(problem);
  }
  if (processor?.name !== configured.name) {
    return ok("the next worker that starts records its own");
  }
  return ok(
    processor.name === "stripe" ? describeAccount(processor.account) : "the built-in ledger",
  );
};

/** The work of a worker that was killed is continued by another one within about 15 seconds. */
const TOLERATED_SILENCE_SECONDS = 60;

const WORK = {
  dispatcher: "waiting work",
  "usage-sender": "usage",
  "webhook-sender": "deliveries",
} as const satisfies Record<PerpetualKind, string>;

const checkPass = async ({ db }: DatabaseContext, kind: PerpetualKind): Promise<Result> => {
  const work = WORK[kind];
  const last = (await listLastPasses(db)).find((each) => each.kind === kind);
  if (last?.hasPassed !== true) {
    return wrong(`no worker has looked for ${work} so far; ${START_WORKER}`);
  }
  const { ageSeconds } = last;
  const found = `a worker looked for ${work} ${Math.ceil(ageSeconds)} s ago`;
  return ageSeconds <= TOLERATED_SILENCE_SECONDS
    ? ok(found)
    : wrong(`${found}. See \`impact workflow show ${kind}\``);
};

const checkEndpoints = async ({ db }: DatabaseContext): Promise<Result> => {
  const states = await countEndpointStates(db);
  const disabled = (states.get("gone") ?? 0) + (states.get("failing_for_days") ?? 0);
  const failing = counted(states.get("failing") ?? 0, "endpoint fails", "endpoints fail");
  return disabled + (states.get("failing") ?? 0) === 0
    ? ok("none fails")
    : warning(
        `${failing}, ${grouped(disabled)} disabled because of failures; see \`impact webhook list\`. Once a server works: ` +
          "`impact webhook update ID --enable`, then `impact webhook recover ID --since TIME`",
      );
};

export const DEPLOYMENT_CHECKS: Checks<DatabaseContext> = {
  deployment: checkDeployment,
  dispatcher: (context) => checkPass(context, "dispatcher"),
  "usage sender": (context) => checkPass(context, "usage-sender"),
  "webhook sender": (context) => checkPass(context, "webhook-sender"),
  "billing processor": checkProcessor,
  "webhook endpoints": checkEndpoints,
};
