import type { UnnamedRejections } from "../../modules/billing/processorEvents/processorEvents.sql.ts";
import type { MinuteEvent } from "../../modules/billing/reconciliation/minuteUsage.sql.ts";
import type { ReportedStream } from "../../modules/billing/reconciliation/reportedStreams.sql.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import type { Span } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import type { StreamReport } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { formatTime } from "../output/formatTable.ts";
import { printRows } from "../output/print.ts";
import type { Columns } from "../output/print.ts";

/** A compared stream. Its differences have ids if they are stored. */
export type ComparedStream = ReportedStream & {
  readonly delivered: number;
  readonly pending: number;
  readonly failed: number;
  readonly processorQuantity: number | null;
  readonly acknowledged: number;
  readonly differences: readonly {
    readonly id: number | null;
    readonly minute: number;
    readonly ours: number;
    readonly processor: number;
    readonly mayLag: boolean;
    readonly events: readonly MinuteEvent[];
  }[];
  readonly error: string | null;
};

type Difference = ComparedStream["differences"][number];

/** JSON has the differences of every stream. */
const SHOWN_DIFFERENCES = 20;

const driftOf = ({ processorQuantity, delivered }: ComparedStream): number | null =>
  processorQuantity === null ? null : processorQuantity - delivered;

export const presentStream = (stream: ComparedStream) => ({
  account_ids: stream.accountIds,
  account_name: stream.accountName,
  mode: stream.mode,
  meter: stream.kind,
  processor: stream.processor,
  customer_id: stream.customerId,
  delivered: stream.delivered,
  processor_quantity: stream.processorQuantity,
  drift: driftOf(stream),
  acknowledged: stream.acknowledged,
  pending: stream.pending,
  failed: stream.failed,
  differences: stream.differences.map(({ id, minute, ours, processor, mayLag, events }) => ({
    difference_id: id,
    minute: timeOf(minute),
    delivered: ours,
    processor_quantity: processor,
    may_lag: mayLag,
    meter_events: events.map((event) => ({
      meter_event_id: event.id,
      account_id: event.accountId,
      state: event.state,
      at: timeOf(event.second),
      quantity: event.quantity,
      registration_ids: event.registrationIds,
    })),
  })),
  error: stream.error,
});

const STREAM_COLUMNS: Columns<ComparedStream> = {
  organization: (stream) => stream.accountName,
  mode: (stream) => stream.mode,
  meter: (stream) => stream.kind,
  processor: (stream) => stream.processor,
  customer: (stream) => stream.customerId,
  delivered: (stream) => stream.delivered,
  "at processor": (stream) => stream.processorQuantity ?? "?",
  drift: (stream) => driftOf(stream) ?? "?",
  acknowledged: (stream) => stream.acknowledged,
  pending: (stream) => stream.pending,
  failed: (stream) => stream.failed,
};

const formatId = (id: number | null): string | null => (id === null ? null : String(id));

const printDifferences = (
  io: Io,
  differing: readonly (readonly [ComparedStream, Difference])[],
): void => {
  io.stdout.write("\n");
  printRows(io, differing, {
    difference: ([, { id }]) => formatId(id),
    organization: ([{ accountName }]) => accountName,
    mode: ([{ mode }]) => mode,
    meter: ([{ kind }]) => kind,
    minute: ([, { minute }]) => timeOf(minute),
    delivered: ([, { ours }]) => ours,
    "at processor": ([, { processor }]) => processor,
    note: ([, { mayLag }]) => (mayLag ? "may lag" : null),
  });
  const events = differing.flatMap(([, difference]) =>
    difference.events.map((event) => [difference.id, event] as const),
  );
  if (events.length > 0) {
    io.stdout.write("\n");
    printRows(io, events, {
      difference: ([id]) => formatId(id),
      event: ([, { id }]) => String(id),
      state: ([, { state }]) => state,
      at: ([, { second }]) => timeOf(second),
      quantity: ([, { quantity }]) => quantity,
      registrations: ([, { registrationIds }]) => registrationIds.join(" "),
    });
  }
};

/** Returns the events that can be sent again and any one of which explains what the processor lacks in a minute. */
const findLostEvents = ({ ours, processor, events }: Difference): readonly string[] =>
  events
    .filter(({ isReopenable, quantity }) => isReopenable && ours - processor === quantity)
    .map(({ id }) => String(id));

const printNextCommands = (
  io: Io,
  differing: readonly (readonly [ComparedStream, Difference])[],
): void => {
  const stored = differing.filter(([, { id, mayLag }]) => id !== null && !mayLag);
  if (stored.length === 0) {
    return;
  }
  const registration = stored
    .flatMap(([, { events }]) => events)
    .flatMap(({ registrationIds }) => registrationIds)[0];
  if (registration !== undefined) {
    say(io, `To see what was sent, run: impact usage show ${registration}`);
  }
  const [lost] = stored.flatMap(([, difference]) => findLostEvents(difference));
  if (lost !== undefined) {
    say(
      io,
      `The processor lacks exactly event ${lost}. To send it again, run: impact usage reopen ${lost} --reason TEXT --dry-run`,
    );
  }
  const failedIds = stored
    .flatMap(([, { events }]) => events)
    .filter(({ failedSinceAcknowledged }) => failedSinceAcknowledged)
    .map(({ id }) => id);
  if (failedIds.length > 0) {
    say(
      io,
      `Usage has failed since drift of its minute was acknowledged. To have the processor's sums decide whether it is sent, run: impact usage retry ${failedIds.join(" ")}`,
    );
  }
  const ids = stored
    .filter(
      ([, { events }]) => !events.some(({ failedSinceAcknowledged }) => failedSinceAcknowledged),
    )
    .map(([, { id }]) => id);
  if (ids.length > 0) {
    say(
      io,
      `Once a difference is explained or settled, run: impact usage acknowledge-drift ${ids.join(" ")} --reason TEXT`,
    );
  }
};

/** Prints the streams, their differing minutes with events and registrations, and the next commands. */
export const printReconciliation = (io: Io, streams: readonly ComparedStream[]): void => {
  printRows(io, streams, STREAM_COLUMNS);
  const differing = streams.flatMap((stream) =>
    stream.differences.map((difference) => [stream, difference] as const),
  );
  if (differing.length > 0) {
    const shown = differing.slice(0, SHOWN_DIFFERENCES);
    printDifferences(io, shown);
    if (differing.length > shown.length) {
      say(
        io,
        `${counted(differing.length - shown.length, "more minute differs", "more minutes differ")}. To see all of them, use --json.`,
      );
    }
    printNextCommands(io, shown);
  }
  for (const { accountName, mode, kind, error } of streams) {
    if (error !== null) {
      say(io, `${accountName} (${mode}, ${kind}) could not be compared: ${error}`);
    }
  }
};

/** Returns how many of the compared streams need attention. */
export const countAttention = (needing: number, compared: number): string => {
  const all = counted(compared, "stream");
  return counted(needing, `of ${all} needs attention`, `of ${all} need attention`);
};

/** Returns the exit code if streams differ or could not be compared: "unreachable" only if there is no other problem. */
export const exitCodeOfProblems = (problems: readonly StreamReport[]): number =>
  problems.every(({ isUnavailable }) => isUnavailable) ? EXIT.unreachable : EXIT.failed;

/** @param separatedAt when this copy of a database became a deployment of its own; null if it is no copy */
export const sayCompared = (io: Io, { start, end }: Span, separatedAt: Date | null): void => {
  say(io, `Compared from ${formatTime(timeOf(start))} to ${formatTime(timeOf(end))}.`);
  if (separatedAt !== null && separatedAt > timeOf(start)) {
    say(
      io,
      `Usage at Stripe was compared only after ${formatTime(separatedAt)}: earlier usage was sent by the deployment from which this one was separated.`,
    );
  }
};

export const presentUnnamedRejections = ({
  code,
  unnamed,
  windowStart,
  windowEnd,
}: UnnamedRejections) => ({
  code,
  events: unnamed,
  received_from: windowStart,
  received_to: windowEnd,
});

/** Prints late rejections of which the processor named only some events: the others are known only as drift. */
export const sayUnnamedRejections = (io: Io, rejections: readonly UnnamedRejections[]): void => {
  for (const { code, unnamed, windowStart, windowEnd } of rejections) {
    say(
      io,
      `Stripe rejected ${counted(unnamed, "event")} that it did not name (${code}), received from ${formatTime(windowStart)} to ${formatTime(windowEnd)}. Find what is missing with: impact usage reconcile`,
    );
  }
};
