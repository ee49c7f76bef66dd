import { listDueProcessorEvents } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { processorEvents, processorEventsId } from "../../../workflows/processorEvents.ts";
import { backgroundQueue } from "../../../runtime/temporalNames.rules.ts";
import { createWaker } from "../../createWaker.ts";
import type { Pass, DispatchContext } from "../../createWaker.ts";

/** The longest due event of the processor. Its attempts, and thus its `second`, change when it is processed. */
type WaitingProcessorEvent = {
  readonly id: string;
  readonly second: number;
  readonly attempts: number;
};

/** Starts the workflow that processes the processor's events, if one is due. */
export const createStartProcessorEvents = (context: DispatchContext): Pass => {
  const { db, clock, temporal, deployment } = context;
  const wakeAll = createWaker<WaitingProcessorEvent>(context, {
    keyOf: ({ id }) => id,
    workflowIdOf: () => processorEventsId(deployment),
    wake: () =>
      temporal.workflow.start(processorEvents, {
        workflowId: processorEventsId(deployment),
        workflowIdConflictPolicy: "USE_EXISTING",
        taskQueue: backgroundQueue(deployment),
        args: [],
      }),
  });
  return async ({ signal }) => {
    const waiting = (await listDueProcessorEvents(db, clock.now(), 1)).map(
      ({ id, attempts }): WaitingProcessorEvent => ({ id, second: attempts, attempts }),
    );
    await wakeAll(waiting, signal);
  };
};
