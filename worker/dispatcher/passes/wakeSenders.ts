import { ownerKey } from "../../../modules/records/owner.rules.ts";
import type { WaitingStream } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { listWaitingStreams } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { wakeSender } from "../usageSenders.ts";
import { createScanPace } from "../../../db/shards/createScanPace.ts";
import { usageSenderWorkflowId } from "../../../runtime/temporal/workflowIds.rules.ts";
import { createWaker } from "../createWaker.ts";
import type { Pass, DispatchContext } from "./pass.ts";

/** Starts or wakes the senders of streams whose events fail again and again. */
export const createWakeSenders = (context: DispatchContext): Pass => {
  const { db, temporal, deployment } = context;
  const pace = createScanPace();
  let troubled: readonly WaitingStream[] = [];
  const wakeAll = createWaker<WaitingStream>(context, {
    keyOf: ownerKey,
    workflowIdOf: (stream) => usageSenderWorkflowId(deployment, stream),
    wake: (stream) => wakeSender(temporal, deployment, stream),
  });
  return async ({ signal }) => {
    if (pace.isDue()) {
      troubled = await pace.scan(() => listWaitingStreams(db));
    }
    await wakeAll(troubled, signal);
  };
};
