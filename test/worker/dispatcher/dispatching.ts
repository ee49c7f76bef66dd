import type { ExecutionContext } from "ava";
import { WorkflowNotFoundError } from "@temporalio/client";
import type { Client } from "@temporalio/client";
import { pino } from "pino";
import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import { systemClock } from "../../../runtime/clock.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { getDeploymentName } from "../../../modules/billing/holdUsage.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { pause } from "../../../runtime/waiting.ts";
import { createDispatcherRuns } from "../../../worker/createDispatcherRuns.ts";
import { ensureWorkflows } from "../../../worker/ensureWorkflows.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { refundWorkflowId } from "../../../runtime/temporalNames.rules.ts";

/** Registers trees and refunds one. Returns the id of the refund's workflow. */
export const refundOneTree = async (db: DatabasePool): Promise<string> => {
  const { id: accountId } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const tree = { accountId, mode: "test", kind: "tree" } as const;
  const { registration } = await writer.register({
    ...tree,
    count: 2,
    fractionalCount: 0,
    idempotencyKey: null,
    attribution: "",
    metadata: {},
    isLimited: false,
  });
  const billing = createBilling({ db, stripe: null });
  await refundRegistration({ db, clock: systemClock, billing }, tree, {
    id: registration.id,
    count: 1,
    reason: null,
    idempotencyKey: null,
  });
  const deployment = await getDeploymentName({ db, clock: systemClock });
  return refundWorkflowId(deployment, registration.id);
};

const RETRY_INTERVAL_MS = 100;

const quiet = pino({ enabled: false });

/** Runs a dispatcher, without workers for what it starts, until `stop` or the end of the test. */
export const startDispatcher = async (
  t: ExecutionContext,
  {
    db,
    clock = systemClock,
    temporal,
  }: { readonly db: DatabasePool; readonly clock?: Clock; readonly temporal: Client },
): Promise<{ readonly stop: () => Promise<void>; readonly failed: Promise<unknown> }> => {
  // A worker decides the name before it starts a dispatcher.
  await getDeploymentName({ db, clock: systemClock });
  const runs = createDispatcherRuns({
    db,
    clock,
    temporal,
    billing: createBilling({ db, stripe: null }),
    observeFailedEvent: () => t.fail(),
  });
  const shutdown = new AbortController();
  const failure = Promise.withResolvers<unknown>();
  const run = async (): Promise<void> => {
    while (!shutdown.signal.aborted) {
      // Temporal repeats an activity that fails.
      const signals = { stop: shutdown.signal, signal: shutdown.signal };
      await runs.run(signals).catch(async (error: unknown) => {
        failure.resolve(error);
        await pause(RETRY_INTERVAL_MS, shutdown.signal);
      });
    }
  };
  const running = run();
  const stop = async (): Promise<void> => {
    shutdown.abort();
    await running;
    await runs.end();
  };
  t.teardown(stop);
  return { stop, failed: failure.promise };
};

/** Ensures the workflows as a worker does until the test ends. It considers a workflow silent immediately, unless it has passed. */
export const startEnsuring = async (
  t: ExecutionContext,
  given: {
    readonly db: DatabasePool;
    readonly temporal: Client;
    readonly clock?: Clock;
    readonly logger?: Logger;
    readonly silentAfterMs?: number;
    readonly checkIntervalMs?: number;
  },
): Promise<void> => {
  const deployment = await getDeploymentName({ db: given.db, clock: systemClock });
  const shutdown = new AbortController();
  const running = ensureWorkflows(
    {
      clock: systemClock,
      logger: quiet,
      deployment,
      plantingOrderIntervalMs: DAY_MS,
      silentAfterMs: 0,
      ...given,
    },
    shutdown.signal,
  );
  t.teardown(() => {
    shutdown.abort();
    return running;
  });
};

const describe = async (temporal: Client, workflowId: string) => {
  try {
    return await temporal.workflow.getHandle(workflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return null;
    }
    throw error;
  }
};

/** Tells whether a workflow was started. */
export const isStarted = async (temporal: Client, workflowId: string): Promise<boolean> =>
  (await describe(temporal, workflowId)) !== null;

/** Returns the id of the run that is running; null if none is. */
export const findRunning = async (temporal: Client, workflowId: string): Promise<string | null> => {
  const description = await describe(temporal, workflowId);
  return description?.status.name === "RUNNING" ? description.runId : null;
};
