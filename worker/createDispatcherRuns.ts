import type { Client } from "@temporalio/client";
import { createRuns } from "../db/createRuns.ts";
import type { Runs } from "../db/createRuns.ts";
import type { BillingContext } from "../modules/billing/context.ts";
import { deploymentNameOf } from "../modules/billing/deployment.rules.ts";
import { readDeployment } from "../modules/billing/deployment.sql.ts";
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

const MAX_CONCURRENT_CALLS = 16;

/** One signal for each registration, and one statement that marks its refunds. */
const PER_PASS = { registrations: 200, refunds: 5000 };

/** Returns a function that starts or signals the workflows of refunds that wait. The accounts take turns. */
const createStartRefunds = ({ db, clock, temporal }: DispatchContext, signal: AbortSignal) => {
  let lastAccountId: string | null = null;
  return async (): Promise<void> => {
    const waiting = await listWaitingRefunds(db, PER_PASS, lastAccountId);
    const accountIds = [...new Set(waiting.map(({ accountId }) => accountId))].toSorted();
    lastAccountId = accountIds.length < PER_PASS.registrations ? null : (accountIds.at(-1) ?? null);
    if (waiting.length === 0) {
      return;
    }
    const name = deploymentNameOf(await readDeployment(db));
    const start = async ({ registrationId, ids }: WaitingRefunds): Promise<void> => {
      await callTemporal(temporal, () =>
        temporal.workflow.signalWithStart(refund, {
          workflowId: refundWorkflowId(name, registrationId),
          taskQueue: backgroundQueue(name),
          args: [registrationId],
          signal: refundedSignal,
        }),
      );
      await markRefundsDispatched(db, ids, clock.now());
    };
    // A failure of one does not keep the others from starting.
    const results = await runConcurrently(
      waiting,
      (refunds) => Promise.allSettled([start(refunds)]),
      { concurrency: MAX_CONCURRENT_CALLS, signal },
    );
    const failed = results.flat().filter((result) => result.status === "rejected");
    if (failed.length > 0) {
      throw new Error(`${failed.length} of ${waiting.length} workflows could not be started.`, {
        cause: failed[0]?.reason,
      });
    }
  };
};

/**
 * Creates the runs that start what waits in the database: workflows of refunds, and the processing of the processor's events.
 * The rows are the outbox, so nothing is lost while Temporal or all workers are down. Two runs at the same time do no harm:
 * Temporal runs one workflow of an id, and the statements can be repeated.
 */
export const createDispatcherRuns = (context: DispatchContext): Runs =>
  createRuns(context, {
    kind: "dispatcher",
    createSender: (signal) => {
      const startRefunds = createStartRefunds(context, signal);
      const creditCheckout = (session: Parameters<typeof creditTopUp>[1]) =>
        creditTopUp(context, session);
      let scanning: Promise<unknown> = Promise.resolve();
      return {
        scan: async () => {
          // A failure of one does not keep the other from running. Two processes may do both at the same time.
          const results = Promise.allSettled([
            startRefunds(),
            processProcessorEvents({ ...context, creditCheckout }, signal),
          ]);
          scanning = results;
          const failed = (await results).find((result) => result.status === "rejected");
          if (failed) {
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
