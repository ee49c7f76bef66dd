import type { Runs } from "../db/createRuns.ts";
import type { PerpetualKind } from "../runtime/perpetualWork.rules.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

/**
 * The activity of the work that never ends. It may be repeated, also while another one runs: its progress is stored in the
 * database.
 * @param context.stopping is aborted when the worker begins to stop. Temporal cancels activities only after the worker's
 *   grace time.
 */
export const createPerpetualActivities = ({
  runs,
  stopping,
}: {
  readonly runs: Readonly<Record<PerpetualKind, Runs>>;
  readonly stopping: AbortSignal;
}) => ({
  workForAMinute: (kind: PerpetualKind): Promise<void> =>
    withHeartbeat((signal) => runs[kind].run({ stop: stopping, signal })),
});

export type PerpetualActivities = ReturnType<typeof createPerpetualActivities>;
