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
import type { WaitingRefunds } from "../modules/registrations/refunds.sql.ts";
import { creditTopUp } from "../modules/stores/creditTopUps.ts";
import { backgroundQueue, refundWorkflowId } from "../runtime/temporalNames.rules.ts";
import { runConcurrently } from "../runtime/runConcurrently.ts";
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
    const start = async (refunds: WaitingRefunds): Promise<void> => {
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
    };
    // A failure of one does not keep the others from starting.
    const failures = await runConcurrently(
      waiting,
      (refunds) =>
        start(refunds).then(
          () => null,
          (error: unknown) => ({ error }),
        ),
      { concurrency: MAX_CONCURRENT_CALLS, signal },
    );
    const failed = failures.filter((failure) => failure !== null);
    if (failed.length > 0) {
      throw new Error(`${failed.length} of ${waiting.length} workflows could not be started.`, {
        cause: failed[0]?.error,
      });
    }
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
