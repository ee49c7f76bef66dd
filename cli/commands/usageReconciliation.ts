import type { Command } from "commander";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { listUnnamedRejections } from "../../modules/billing/processorEvents/processorEvents.sql.ts";
import {
  findLastReconciliation,
  readReconciliationStatus,
} from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import type { StoredReconciliation } from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import { minuteOf, timeOf } from "../../modules/billing/usage.rules.ts";
import type { Span } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { HOUR_MS, secondOf } from "../../runtime/durations.rules.ts";
import { readDatabaseTime } from "../../modules/billing/readDatabaseTime.ts";
import { acknowledgeDrift } from "../../modules/billing/reconciliation/acknowledgeDrift.ts";
import {
  readReconciliation,
  recordReconciliationFailure,
  runReconciliation,
} from "../../modules/billing/reconciliation/runReconciliation.ts";
import type { DriftingStream } from "../../modules/billing/reconciliation/runReconciliation.ts";
import { defaultSpan } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import type { StreamReport } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { readAccountFilter } from "../accountOptions.ts";
import { collect, generatedId, parseId, parseReason, parserOf } from "../arguments.ts";
import { openBilling } from "../context.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError, exitCodeOf } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openChange, operatorName, operatorOption } from "../operator.ts";
import type { ReasonedOptions } from "../operator.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printRecord, printTable } from "../output/print.ts";
import type { JsonOption } from "../output/print.ts";
import { sinceOption, untilOption } from "../timeRange.ts";
import type { TimeRange } from "../timeRange.ts";
import {
  countAttention,
  exitCodeOfProblems,
  presentStream,
  presentUnnamedRejections,
  printReconciliation,
  sayCompared,
  sayUnnamedRejections,
} from "./reconciliationReport.ts";
import type { ComparedStream } from "./reconciliationReport.ts";
import { requireSuccess } from "./usageResults.ts";

type ReconcileOptions = TimeRange & {
  readonly org?: string;
  readonly json?: true;
};

/** As long as a nightly run may take. */
const TIMEOUT_MS = 6 * HOUR_MS;

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

const UNNAMED_SHOWN = 20;

export const addReconcileCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("reconcile")
    .description("Compare the processor's usage with what was delivered, without correcting it")
    .option("--org <id>", "id of the organization", parseId)
    .addOption(sinceOption("first minute (default: 35 days before the end)"))
    .addOption(untilOption("end, exclusive (default: 15 minutes ago)"))
    .action(async (options: ReconcileOptions) => {
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
    });
};

const describe = ({ endedAt, error }: StoredReconciliation): string =>
  error === null ? (endedAt === null ? "not ended" : "succeeded") : "failed";

/** The exit code is 1 if the reconciliation failed or found something. */
export const addShowReconciliationCommand = (
  parent: Command,
  { io, connections }: CliContext,
): void => {
  parent
    .command("show-reconciliation")
    .description("Show the last complete reconciliation")
    .action(async ({ json }: JsonOption) => {
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
    });
};

const HEADINGS = ["difference", "customer", "mode", "meter", "minute", "units"];

const ACKNOWLEDGE_HELP = `
An acknowledged difference of a minute changes nothing at the processor. It is reported
again only if it changes, and retry and reopen count it as explained. If usage that
counted as delivered then fails later, retry it before anything else is done about it.`;

/** The id of a difference that a reconciliation listed. */
const parseDifferenceId = parserOf(generatedId, "the id of a difference");

/** Each difference is acknowledged separately: an unknown one does not stop the others. */
export const addAcknowledgeDriftCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("acknowledge-drift")
    .description("Acknowledge differences that are explained or settled")
    .argument(
      "<ids...>",
      "ids of differences that a reconciliation listed",
      collect(parseDifferenceId),
    )
    .requiredOption("--reason <text>", "reason, recorded with the differences", parseReason)
    .addOption(operatorOption())
    .addHelpText("after", ACKNOWLEDGE_HELP)
    .action(async (ids: readonly bigint[], { reason, as, json }: ReasonedOptions) => {
      const { io } = context;
      const deps = await openChange(context, { as, reason });
      const operator = operatorName(as);
      const acknowledged: object[] = [];
      const rows: (readonly (string | number | Date)[])[] = [];
      const outcomes: { readonly exitCode: number }[] = [];
      for (const id of ids) {
        try {
          const { customer, mode, kind, minute, units, processor } = await acknowledgeDrift(
            deps,
            id,
            {
              reason,
              operator,
            },
          );
          rows.push([String(id), customer, mode, kind, timeOf(minute), units]);
          acknowledged.push({
            difference_id: Number(id),
            processor,
            customer,
            mode,
            meter: kind,
            minute: timeOf(minute),
            units,
            reason,
            acknowledged_by: operator,
          });
          outcomes.push({ exitCode: EXIT.ok });
        } catch (error) {
          say(io, `Difference ${id}: ${describeError(error)}`);
          outcomes.push({ exitCode: exitCodeOf(error) });
        }
      }
      if (json) {
        printJson(io, acknowledged);
      } else if (rows.length > 0) {
        printTable(io, HEADINGS, rows);
      }
      if (rows.length > 0) {
        say(
          io,
          `Acknowledged by ${operator}. A difference is reported again only if it changes. To update the metrics now, run: impact usage reconcile`,
        );
      }
      requireSuccess(outcomes, "acknowledged");
    });
};
