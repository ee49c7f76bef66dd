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
import { refund, refundedSignal } from "../workflows/refund.ts";
import { callTemporal } from "./repeatedCalls.ts";

type DispatchContext = BillingContext & ProcessorEventObservers & { readonly temporal: Client };

const MAX_CONCURRENT_CALLS = 16;

/** Refunds. Each registration takes one signal, and one statement that marks its refunds. */
const PER_PASS = 500;

/** Returns a function that starts or signals the workflows of refunds that wait. */
const createStartRefunds = ({ db, clock, temporal }: DispatchContext) => {
  /** Where a full page ended. The next one follows it, so those that cannot be started hold up no others. */
  let after: string | null = null;
  return async (signal: AbortSignal): Promise<void> => {
    const waiting = await listWaitingRefunds(db, PER_PASS, after);
    const isFull = waiting.flatMap(({ ids }) => ids).length === PER_PASS;
    after = (isFull && waiting.at(-1)?.lastAt) || null;
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
export const createDispatcherRuns = (context: DispatchContext): Runs => {
  const startRefunds = createStartRefunds(context);
  const creditCheckout = (session: Parameters<typeof creditTopUp>[1]) =>
    creditTopUp(context, session);
  /** Does what it finds, so the loops have nothing to do. */
  const scan = async (signal: AbortSignal): Promise<readonly string[]> => {
    // A failure of one does not keep the other from running. Two processes may do both at the same time.
    const results = await Promise.allSettled([
      startRefunds(signal),
      processProcessorEvents({ ...context, creditCheckout }, signal),
    ]);
    const failed = results.find((result) => result.status === "rejected");
    if (failed) {
      throw failed.reason;
    }
    return [];
  };
  const work = { scan, keyOf: String, loop: () => Promise.resolve() };
  return createRuns(context, { kind: "dispatcher", work });
};
