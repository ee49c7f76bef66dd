import { ownerKey } from "../../../modules/records/owner.rules.ts";
import type { TroubledStream } from "../../../modules/billing/sending/usageShards.sql.ts";
import { listTroubledStreams } from "../../../modules/billing/sending/usageShards.sql.ts";
import { wakeSender } from "../../senders.ts";
import { createScanPace } from "../../../db/shards/createScanPace.ts";
import { usageSenderWorkflowId } from "../../../runtime/temporalNames.rules.ts";
import { createWaker } from "../../createWaker.ts";
import type { Pass, DispatchContext } from "../../createWaker.ts";

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
