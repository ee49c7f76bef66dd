import type { DatabasePool } from "slonik";
import type { StoredDifference, StoredStream } from "./reconciliations.sql.ts";
import { listReconciliationDifferences, listReconciliationStreams } from "./reconciliations.sql.ts";
import type { MinuteEvent } from "./minuteUsage.sql.ts";
import { listMinuteEvents } from "./minuteUsage.sql.ts";
import { minuteOf } from "../usage.rules.ts";

/** A stream that drifted or could not be read, with the meter events and registrations of its differing minutes. */
export type DriftingStream = StoredStream & {
  readonly differences: readonly (StoredDifference & { readonly events: readonly MinuteEvent[] })[];
};

/** Returns the stored streams of a reconciliation that drifted or could not be read. */
export const readReconciliation = async (
  db: DatabasePool,
  id: string,
): Promise<readonly DriftingStream[]> => {
  const drifting: DriftingStream[] = [];
  for (const stream of await listReconciliationStreams(db, id)) {
    const differences: DriftingStream["differences"][number][] = [];
    for (const difference of await listReconciliationDifferences(db, stream.id)) {
      const events = await listMinuteEvents(db, stream, minuteOf(difference.minute));
      differences.push({ ...difference, events });
    }
    drifting.push({ ...stream, differences });
  }
  return drifting;
};
