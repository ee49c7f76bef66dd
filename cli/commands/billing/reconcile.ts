import { readDeployment } from "../../../db/billing/deployment.ts";
import { listUnnamedRejections } from "../../../db/billing/processorEvents/usageRejections.ts";
import { minuteOf, timeOf } from "../../../domain/billing/usage.ts";
import { secondOf, HOUR_MS } from "../../../domain/durations.ts";
import type { Span } from "../../../domain/billing/usage.ts";
import { counted } from "../../../domain/counted.ts";
import type { DriftingStream } from "../../../services/billing/reconciliation/readReconciliation.ts";
import { readReconciliation } from "../../../services/billing/reconciliation/readReconciliation.ts";
import { defaultSpan } from "../../../services/billing/reconciliation/reconcileUsage.ts";
import type { StreamReport } from "../../../services/billing/reconciliation/reconcileUsage.ts";
import {
  recordReconciliationFailure,
  runReconciliation,
} from "../../../services/billing/reconciliation/runReconciliation.ts";
import { openBilling } from "../../context.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, describeError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { formatTime } from "../../output/formatTable.ts";
import type { TimeRange } from "../../timeRange.ts";
import { presentUnnamedRejections, sayUnnamedRejections } from "./unnamedRejections.ts";
import { printJson } from "../../output/print.ts";
import { readAccountFilter } from "../../accountOptions.ts";
import { readDatabaseTime } from "../../../services/billing/readDatabaseTime.ts";
import type { ComparedStream } from "./presentReconciliation.ts";
import {
  countAttention,
  exitCodeOfProblems,
  presentStream,
  printReconciliation,
  sayCompared,
} from "./presentReconciliation.ts";

export type ReconcileOptions = TimeRange & {
  readonly org?: string;
  readonly json?: true;
};

/** As long as a nightly run may take. */
const TIMEOUT_MS = 6 * HOUR_MS;

const UNNAMED_SHOWN = 20;

const minuteStartOf = (time: Date): number => minuteOf(secondOf(time)).start;

const chooseSpan = (now: Date, { since, until }: ReconcileOptions): Span => {
  const usual = defaultSpan(now);
  const end = until === undefined ? usual.end : minuteStartOf(until);
  const start = since === undefined ? end - (usual.end - usual.start) : minuteStartOf(since);
  if (start >= end) {
    throw new CommandError(
      EXIT.usage,
      `--since must be before --until; got ${formatTime(timeOf(start))} and ${formatTime(timeOf(end))}.`,
    );
  }
  return { start, end };
};

/** Gives the differences of a stream their ids, if they were stored. */
const withIds = (stream: StreamReport, stored: readonly DriftingStream[]): ComparedStream => ({
  ...stream,
  differences:
    stored.find(
      ({ processor, mode, kind, customerId, accountIds }) =>
        processor === stream.processor &&
        mode === stream.mode &&
        kind === stream.kind &&
        customerId === stream.customerId &&
        accountIds[0] === stream.accountIds[0],
    )?.differences ?? stream.differences.map((difference) => ({ ...difference, id: null })),
});

/** Runs and stores a reconciliation of one poll. One that breaks off is stored as failed. */
const runOnce = async (
  context: CliContext,
  { org, since, until }: ReconcileOptions,
  span: Span,
): Promise<{
  readonly streams: readonly ComparedStream[];
  readonly problems: readonly StreamReport[];
}> => {
  const deps = { ...(await openBilling(context)), pace: await context.connections.pace() };
  const accountId = await readAccountFilter(deps.db, org);
  const id = crypto.randomUUID();
  const isPartial = org !== undefined || since !== undefined || until !== undefined;
  try {
    const { streams, drifting } = await runReconciliation(
      deps,
      { id, isFinal: true, accountId, span: isPartial ? span : null },
      AbortSignal.timeout(TIMEOUT_MS),
    );
    const stored = await readReconciliation(deps.db, id);
    return { streams: streams.map((stream) => withIds(stream, stored)), problems: drifting };
  } catch (error) {
    if (!isPartial) {
      await recordReconciliationFailure(deps, { id, error: describeError(error) });
    }
    throw error;
  }
};

export const reconcile = async (context: CliContext, options: ReconcileOptions): Promise<void> => {
  const { io, clock, connections } = context;
  if (options.until !== undefined) {
    // A span that does not depend on the time is checked before the database is needed.
    chooseSpan(clock.now(), options);
  }
  const now = await readDatabaseTime(await connections.database(), clock);
  const span = chooseSpan(now, options);
  const { streams, problems } = await runOnce(context, options, span);
  const drifting = problems.filter(({ error }) => error === null);
  const unnamed = await listUnnamedRejections(
    await connections.database(),
    timeOf(span.start),
    UNNAMED_SHOWN,
  );
  if (options.json) {
    printJson(io, {
      from: timeOf(span.start),
      to: timeOf(span.end),
      streams: streams.map(presentStream),
      unnamed_rejections: unnamed.map(presentUnnamedRejections),
    });
  } else {
    printReconciliation(io, streams);
  }
  const { separatedAt } = await readDeployment(await connections.database());
  sayCompared(io, span, separatedAt);
  if (span.end > defaultSpan(now).end) {
    say(io, "The processor's sums of the last 15 minutes may be incomplete.");
  }
  sayUnnamedRejections(io, unnamed);
  if (problems.length > 0) {
    throw new CommandError(
      exitCodeOfProblems(problems),
      `${countAttention(problems.length, streams.length)}: ${counted(drifting.length, "differs", "differ")} at the processor, ${problems.length - drifting.length} could not be compared.`,
    );
  }
};
