import {
  defaultSpan,
  listStreamsNeedingAttention,
  reconcileUsage,
} from "../../../services/billing/reconcileUsage.ts";
import type { Span, StreamReport } from "../../../services/billing/reconcileUsage.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { minuteOf, secondOf } from "../../../domain/billing/usage.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";
import { formatTime } from "../../output/formatTable.ts";
import { printJson, printTable } from "../../output/print.ts";
import { sayUnnamedRefusals } from "./sayUnnamedRefusals.ts";
import { timeOf } from "./presentEvent.ts";

export type ReconcileOptions = {
  readonly org?: string;
  readonly from?: Date;
  readonly to?: Date;
  readonly json?: true;
};

/** As long as a nightly run may take. */
const TIMEOUT_MS = 60 * 60 * 1000;
/** JSON has the differences of every stream. */
const SHOWN_DIFFERENCES = 20;

const minuteStartOf = (time: Date): number => minuteOf(secondOf(time)).start;

const chooseSpan = (now: Date, { from, to }: ReconcileOptions): Span => {
  const usual = defaultSpan(now);
  const end = to === undefined ? usual.end : minuteStartOf(to);
  const start = from === undefined ? end - (usual.end - usual.start) : minuteStartOf(from);
  if (start >= end) {
    throw new CommandError(
      EXIT.usage,
      `--from must be before --to; got ${formatTime(timeOf(start))} and ${formatTime(timeOf(end))}.`,
    );
  }
  return { start, end };
};

const presentStream = (stream: StreamReport) => ({
  account_id: stream.accountId,
  account_name: stream.accountName,
  mode: stream.mode,
  meter: stream.meter,
  processor: stream.processor,
  customer_id: stream.customerId,
  delivered: stream.delivered,
  processor_quantity: stream.processorQuantity,
  drift: stream.drift,
  pending: stream.pending,
  failed: stream.failed,
  differences: stream.differences.map(({ minute, ours, processor, mayLag }) => ({
    minute: timeOf(minute),
    delivered: ours,
    processor_quantity: processor,
    may_lag: mayLag,
  })),
  fault: stream.error,
});

const printStreams = (io: Io, streams: readonly StreamReport[]): void => {
  printTable(
    io,
    [
      "organization",
      "mode",
      "meter",
      "processor",
      "customer",
      "delivered",
      "at processor",
      "drift",
      "pending",
      "failed",
    ],
    streams.map((stream) => [
      stream.accountName,
      stream.mode,
      stream.meter,
      stream.processor,
      stream.customerId,
      stream.delivered,
      stream.processorQuantity ?? "?",
      stream.drift ?? "?",
      stream.pending,
      stream.failed,
    ]),
  );
};

const printDifferences = (io: Io, differing: readonly StreamReport[]): void => {
  const rows = differing.flatMap((stream) =>
    stream.differences.map(({ minute, ours, processor, mayLag }) => [
      stream.accountName,
      stream.mode,
      stream.meter,
      timeOf(minute),
      ours,
      processor,
      mayLag ? "may lag" : null,
    ]),
  );
  io.stdout.write("\n");
  printTable(
    io,
    ["organization", "mode", "meter", "minute", "delivered", "at processor", "note"],
    rows.slice(0, SHOWN_DIFFERENCES),
  );
  if (rows.length > SHOWN_DIFFERENCES) {
    say(
      io,
      `${rows.length - SHOWN_DIFFERENCES} more minutes differ. To see all of them, use --json.`,
    );
  }
};

export const reconcile = async (
  { io, connections, clock }: Context,
  options: ReconcileOptions,
): Promise<void> => {
  const now = clock.now();
  const span = chooseSpan(now, options);
  const deps = { db: await connections.database(), clock, billing: await connections.billing() };
  if (options.org !== undefined) {
    await getOrganization(deps.db, options.org);
  }
  const { streams } = await reconcileUsage(
    deps,
    { accountId: options.org ?? null, span },
    AbortSignal.timeout(TIMEOUT_MS),
  );
  const problems = listStreamsNeedingAttention(streams);
  const drifting = problems.filter(({ error }) => error === null);
  if (options.json) {
    printJson(io, {
      from: timeOf(span.start),
      to: timeOf(span.end),
      streams: streams.map(presentStream),
    });
  } else {
    printStreams(io, streams);
    const differing = streams.filter(({ differences }) => differences.length > 0);
    if (differing.length > 0) {
      printDifferences(io, differing);
    }
  }
  say(io, `Compared from ${formatTime(timeOf(span.start))} to ${formatTime(timeOf(span.end))}.`);
  if (span.end > defaultSpan(now).end) {
    say(io, "The processor's sums of the last 15 minutes may be incomplete.");
  }
  await sayUnnamedRefusals(io, deps.db, timeOf(span.start));
  for (const { accountName, mode, meter, error } of problems) {
    if (error !== null) {
      say(io, `${accountName} (${mode}, ${meter}) could not be compared: ${error}`);
    }
  }
  if (problems.length > 0) {
    throw new CommandError(
      EXIT.failed,
      `${problems.length} of ${streams.length} streams need attention: ${drifting.length} differ at the processor, ${problems.length - drifting.length} could not be compared.`,
    );
  }
};
