import type { Client } from "@temporalio/client";
import { createRuns } from "../db/createRuns.ts";
import type { Runs } from "../db/createRuns.ts";
import type { BillingContext } from "../modules/billing/context.ts";
import { deploymentNameOf } from "../modules/billing/deployment.rules.ts";
import { readDeployment } from "../modules/billing/deployment.sql.ts";
import type { Deployment } from "../modules/billing/deployment.sql.ts";
import { processProcessorEvents } from "../modules/billing/processorEvents/processProcessorEvents.ts";
import type { ProcessorEventObservers } from "../modules/billing/processorEvents/processProcessorEvents.ts";
import { listWaitingRefunds, markRefundsDispatched } from "../modules/registrations/refunds.sql.ts";
import { creditTopUp } from "../modules/stores/creditTopUps.ts";
import { backgroundQueue, refundWorkflowId } from "../runtime/temporalNames.rules.ts";
import { pause } from "../runtime/waiting.ts";
import { refund, refundedSignal } from "../workflows/refund.ts";
import { callTemporal } from "./repeatedCalls.ts";

type DispatchContext = BillingContext &
  ProcessorEventObservers & {
    readonly temporal: Client;
  };

/** A kind of work that the dispatcher does once a second. Two processes may do it at the same time. */
type Pass = (deployment: Deployment, signal: AbortSignal) => Promise<void>;

const MAX_CONCURRENT_CALLS = 16;

/**
 * Does the work for every item until the signal is aborted, even if it fails for some.
 * @throws Error with the first failure as its cause, after all items
 */
const forEachConcurrently = async <Item>(
  items: readonly Item[],
  signal: AbortSignal,
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const queue = items.values();
  const failures: unknown[] = [];
  const workers = Array.from({ length: Math.min(MAX_CONCURRENT_CALLS, items.length) }, async () => {
    for (const item of queue) {
      if (signal.aborted) {
        return;
      }
      await work(item).catch((error: unknown) => failures.push(error));
    }
  });
  await Promise.all(workers);
  if (failures.length > 0) {
    throw new Error(`${failures.length} of ${items.length} workflows could not be started.`, {
      cause: failures[0],
    });
  }
};

/** One signal for each registration, and one statement that marks its refunds. */
const PER_PASS = { registrations: 200, refunds: 5000 };

/** Starts or signals the workflows of refunds that wait. The accounts take turns. */
const createStartRefunds = ({ db, clock, temporal }: DispatchContext): Pass => {
  let lastAccountId: string | null = null;
  return async (deployment, signal) => {
    const name = deploymentNameOf(deployment);
    const waiting = await listWaitingRefunds(db, PER_PASS, lastAccountId);
    const accountIds = [...new Set(waiting.map(({ accountId }) => accountId))].toSorted();
    lastAccountId = accountIds.length < PER_PASS.registrations ? null : (accountIds.at(-1) ?? null);
    await forEachConcurrently(waiting, signal, async (refunds) => {
      const { registrationId } = refunds;
      await callTemporal(temporal, () =>
        temporal.workflow.signalWithStart(refund, {
          workflowId: refundWorkflowId(name, registrationId),
          taskQueue: backgroundQueue(name),
          args: [registrationId],
          signal: refundedSignal,
        }),
      );
      await markRefundsDispatched(db, refunds, clock.now());
    });
  };
};

/** Processes the due events of the processor. Of two processes, one begins an event. */
const createProcessEvents =
  (context: DispatchContext): Pass =>
  (_, signal) =>
    processProcessorEvents(
      { ...context, creditCheckout: (session) => creditTopUp(context, session) },
      signal,
    );

const PASSES: readonly ((context: DispatchContext) => Pass)[] = [
  createStartRefunds,
  createProcessEvents,
];

/**
 * Creates the runs that start what waits in the database: workflows of refunds, and the processing of the processor's events.
 * The rows are the outbox, so nothing is lost while Temporal or all workers are down. Two runs at the same time do no harm:
 * Temporal runs one workflow of an id, and the statements can be repeated.
 */
export const createDispatcherRuns = (context: DispatchContext): Runs =>
  createRuns(context, {
    kind: "dispatcher",
    createSender: (signal) => {
      const passes = PASSES.map((createPass) => createPass(context));
      let scanning: Promise<unknown> = Promise.resolve();
      return {
        scan: async () => {
          const deployment = await readDeployment(context.db);
          // A failure of one does not keep the others from running.
          const results = Promise.allSettled(passes.map((pass) => pass(deployment, signal)));
          scanning = results;
          const failed = (await results).find(({ status }) => status === "rejected");
          if (failed?.status === "rejected") {
            throw failed.reason;
          }
        },
        step: () => Promise.resolve(),
        waitForWork: (atMostMs) => pause(atMostMs, signal),
        settled: async () => {
          await scanning;
        },
      };
    },
  });
