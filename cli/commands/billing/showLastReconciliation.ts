import type { StoredReconciliation } from "../../../db/billing/reconciliation/reconciliations.ts";
import {
  findLastReconciliation,
  readReconciliationStatus,
} from "../../../db/billing/reconciliation/reconciliations.ts";
import { timeOf } from "../../../domain/billing/usage.ts";
import { readReconciliation } from "../../../services/billing/reconciliation/readReconciliation.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printJson, printRecord } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { countAttention, presentStream, printReconciliation } from "./presentReconciliation.ts";

const describe = ({ endedAt, error }: StoredReconciliation): string =>
  error === null ? (endedAt === null ? "not ended" : "succeeded") : "failed";

/** Shows the stored result of the last complete reconciliation. The exit code is 1 if it failed or found something. */
export const showLastReconciliation = async (
  { io, connections }: CliContext,
  { json }: JsonOption,
): Promise<void> => {
  const db = await connections.database();
  const last = await findLastReconciliation(db);
  if (!last) {
    throw new CommandError(
      EXIT.notFound,
      "No reconciliation has run yet. A worker runs one every night; to run one now: impact usage reconcile",
    );
  }
  const { lastSuccessAt } = await readReconciliationStatus(db);
  const streams = await readReconciliation(db, last.id);
  if (json) {
    printJson(io, {
      id: last.id,
      result: describe(last),
      started_at: last.startedAt,
      ended_at: last.endedAt,
      last_success_at: lastSuccessAt,
      from: timeOf(last.startSecond),
      to: timeOf(last.endSecond),
      compared: last.streams,
      drifting: last.drifting,
      unreadable: last.unreadable,
      drift_units: last.driftUnits,
      error: last.error,
      streams: streams.map(presentStream),
    });
  } else {
    printRecord(io, {
      reconciliation: last.id,
      result: describe(last),
      started: last.startedAt,
      ended: last.endedAt,
      "last success": lastSuccessAt,
      from: timeOf(last.startSecond),
      to: timeOf(last.endSecond),
      "compared streams": last.streams,
      "drifting streams": last.drifting,
      "unreadable streams": last.unreadable,
      "drift units": last.driftUnits,
      error: last.error,
    });
    if (streams.length > 0) {
      io.stdout.write("\n");
      printReconciliation(io, streams);
    }
  }
  if (last.error !== null || streams.length > 0) {
    throw new CommandError(
      EXIT.failed,
      last.error === null
        ? `${countAttention(streams.length, last.streams ?? streams.length)}.`
        : `The reconciliation failed: ${last.error}`,
    );
  }
};
