import { ownerKey } from "../../../domain/accounts/accounts.ts";
import type { TroubledStream } from "../../../db/billing/sending/usageShards.ts";
import { listTroubledStreams } from "../../../db/billing/sending/usageShards.ts";
import { wakeSender } from "../../../program/temporal/usageSenders.ts";
import { createScanPace } from "../../../services/shards/createScanPace.ts";
import { usageSenderWorkflowId } from "../../../workflows/workflowIds.ts";
import { createWaker } from "../createWaker.ts";
import type { Pass, DispatchContext } from "./pass.ts";

/** Starts or wakes the senders of streams whose events fail again and again. */
export const createWakeSenders = (context: DispatchContext): Pass => {
  const { db, temporal, deployment } = context;
  const pace = createScanPace();
  let troubled: readonly TroubledStream[] = [];
  const wakeAll = createWaker<TroubledStream>(context, {
    keyOf: ownerKey,
    workflowIdOf: (stream) => usageSenderWorkflowId(deployment, stream),
    wake: (stream) => wakeSender(temporal, deployment, stream),
  });
  return async ({ signal }) => {
    if (pace.isDue()) {
      troubled = await pace.scan(() => listTroubledStreams(db));
    }
    await wakeAll(troubled, signal);
  };
};
