import type { CommonQueryMethods, DatabasePool } from "slonik";
import { readAcknowledgedDrift } from "./acknowledgedDrift.sql.ts";
import type { AcknowledgedDrift } from "./acknowledgedDrift.sql.ts";
import { findEndOfPeriods } from "../billingPeriods.sql.ts";
import { lockDeployment, readDeployment } from "../deployment.sql.ts";
import { readMinuteUsage } from "./minuteUsage.sql.ts";
import type { MinuteUsage } from "./minuteUsage.sql.ts";
import { lockStream } from "../streams.sql.ts";
import type { ReportedStream } from "./reportedStreams.sql.ts";
import { listStripeStreams, sumMeterEventsByMinute } from "./reportedStreams.sql.ts";
import { insertUsageCorrection, sumSettledCorrections } from "./usageCorrections.sql.ts";
import type { CorrectionAction } from "./decideCorrection.rules.ts";
import { decideCorrection } from "./decideCorrection.rules.ts";
import type { HandSettlement } from "./closeUsage.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import { requireFlowing } from "../deployment.rules.ts";
import { DEFAULT_GRACE_MS } from "../meterEvents.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import { UsageUnreadableError } from "../processor.ts";
import type { BillingProcessor } from "../processor.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { runConcurrently } from "../../../runtime/runConcurrently.ts";
import { getProcessor } from "../createBilling.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import type { BillingContext } from "../context.ts";
import { acknowledgedIn, DAY, findDifferences, HOUR, MINUTE } from "./findDifferences.ts";
import { lockComparedMinutes, findOpenUsage } from "./requireUnchanged.ts";
import { CONCURRENT_READS, createUsageReader, defaultSpan } from "./reconcileUsage.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";

/** A document with which an operator corrected units at the processor by hand; negative if it returns them. */
type CorrectionDocument = HandSettlement & { readonly units: number };

export type FailoverOptions = {
  /** The last time that the failover kept. */
  readonly restoredAt: Date;
  /** Null: all organizations. */
  readonly accountId: string | null;
  /** Also bills again what lost refunds had taken back, in the 35 days that Stripe corrects. */
  readonly includeLostRefunds: boolean;
  /** Settles what is on no invoice any more. */
  readonly document: CorrectionDocument | null;
  readonly reason: string;
  readonly operator: string;
  readonly isDryRun: boolean;
};

/** A minute in which the processor's sum differs from ours, and what is done about it. */
export type ProposedCorrection = {
  readonly stream: ReportedStream;
  /** The second of the correction, in that minute. */
  readonly second: number;
  readonly ours: number;
  readonly processorQuantity: number;
  readonly action: CorrectionAction;
  readonly reason: string | null;
  /** Null if nothing was recorded. */
  readonly correctionId: number | null;
};

/** Returns the units that a correction adds at the processor; negative if it takes units back. */
export const unitsOf = ({
  ours,
  processorQuantity,
}: Pick<ProposedCorrection, "ours" | "processorQuantity">): number => ours - processorQuantity;

/** A proposed correction, with the version of the minute's usage that was compared. */
type Compared = ProposedCorrection & { readonly version: string };

/** A stream whose sums the processor refuses to report. */
type UnreadableStream = { readonly stream: ReportedStream; readonly error: string };

export type FailoverReport = {
  /** The span in which units that we lack are looked for. */
  readonly span: Span;
  readonly corrections: readonly ProposedCorrection[];
  readonly unreadable: readonly UnreadableStream[];
};

/** A registration's time is taken before its transaction commits. */
const COMMIT_MARGIN_SECONDS = MINUTE;

const spanOf = (now: Date, restoredAt: Date): Span => {
  const { end } = defaultSpan(now);
  const { start } = minuteOf(secondOf(restoredAt) - COMMIT_MARGIN_SECONDS);
  if (start >= end) {
    throw invalidRequest("the processor's sums may lag for 15 minutes; repeat the command then");
  }
  return { start, end };
};

/**
 * @throws DomainError request_invalid if live usage is not billed by Stripe, or is held
 * @throws ProcessorUnavailableError if Stripe is not configured
 */
const requireFlowingStripe = async ({ db, billing }: BillingContext): Promise<BillingProcessor> => {
  const deployment = await readDeployment(db);
  if (deployment.processor?.name !== "stripe") {
    throw invalidRequest(
      "Stripe does not bill live usage; the built-in ledger is restored with the database",
    );
  }
  requireFlowing(deployment, "run `impact usage compare-and-release` first");
  return getProcessor(billing, "stripe", "live");
};

type Comparison = {
  readonly stream: ReportedStream;
  readonly acknowledged: readonly AcknowledgedDrift[];
  readonly readTheirs: (part: Span) => Promise<number>;
};

/** Lists the minutes that differ: those of the span, and with lost refunds those before it in which the processor has less. */
const listMinutes = async (
  { db }: BillingContext,
  { stream, acknowledged, readTheirs }: Comparison,
  {
    span,
    includeLostRefunds,
    now,
  }: { readonly span: Span; readonly includeLostRefunds: boolean; readonly now: Date },
): Promise<readonly number[]> => {
  const earlier = { start: Math.min(defaultSpan(now).start, span.start), end: span.start };
  const isSearchingEarlier = includeLostRefunds && earlier.start < earlier.end;
  const minutes = await sumMeterEventsByMinute(
    db,
    stream,
    isSearchingEarlier ? { start: earlier.start, end: span.end } : span,
    now,
  );
  const sums = { minutes, acknowledged, readTheirs };
  const found: number[] = [];
  if (isSearchingEarlier) {
    for await (const { minute, ours, processor } of findDifferences(earlier, sums)) {
      if (processor < ours + acknowledgedIn(acknowledged, minuteOf(minute))) {
        found.push(minute);
      }
    }
  }
  // A lost registration and a lost refund may add up to zero, less likely within an hour than within a day.
  const steps = span.end - span.start > DAY ? [DAY, HOUR, MINUTE] : [HOUR, MINUTE];
  for await (const { minute } of findDifferences(span, sums, steps)) {
    found.push(minute);
  }
  return found;
};

/**
 * Returns the events of a minute that must be decided first. The processor may have usage in doubt, whose units would be
 * taken back. Usage that has failed since drift was acknowledged makes that drift explain nothing, so units of other usage
 * would be taken back.
 */
const listOpenIds = async (
  db: CommonQueryMethods,
  stream: ReportedStream,
  minute: Span,
  { failedSinceIds }: MinuteUsage,
): Promise<readonly string[]> => {
  const open = await findOpenUsage(db, stream, minute);
  return [...new Set([...open.map(({ id }) => String(id)), ...failedSinceIds])];
};

/** Compares a minute again and decides about its correction. */
const proposeCorrection = async (
  { db, clock }: BillingContext,
  { stream, readTheirs }: Comparison,
  minute: number,
  { options, usageLagMs }: { readonly options: FailoverOptions; readonly usageLagMs: number },
): Promise<Compared | null> => {
  const span = minuteOf(minute);
  const usage = await readMinuteUsage(db, stream, span);
  const openIds = await listOpenIds(db, stream, span, usage);
  const processorQuantity = await readTheirs(span);
  const ours = usage.explained;
  const quantity = processorQuantity - ours;
  if (quantity === 0) {
    return null;
  }
  const now = await readDatabaseTime(db, clock);
  const restoredSecond = secondOf(options.restoredAt);
  const second =
    restoredSecond >= span.start && restoredSecond < span.end ? restoredSecond : span.start;
  const [accountId] = stream.accountIds;
  const endedBefore = await findEndOfPeriods(
    db,
    { accountId, kind: stream.kind },
    { now, graceMs: DEFAULT_GRACE_MS },
  );
  const isInvoiced = endedBefore !== null && second * 1000 < endedBefore.getTime();
  const { action, reason } = decideCorrection(
    { ...usage, openIds, quantity, second, isInvoiced },
    options,
    usageLagMs,
    now,
  );
  const { version } = usage;
  return { stream, second, ours, processorQuantity, action, reason, correctionId: null, version };
};

/**
 * Records a proposed correction. Corrections are recorded one after the other, and only while the minute's events are those
 * that were compared, so none is recorded twice.
 */
const recordCorrection = async (
  { db, clock }: BillingContext,
  proposed: Compared,
  options: FailoverOptions,
): Promise<Compared> => {
  const { stream, second, action, version } = proposed;
  if (options.isDryRun || (action !== "send" && action !== "settle")) {
    return proposed;
  }
  const [accountId] = stream.accountIds;
  const units = unitsOf(proposed);
  const now = await readDatabaseTime(db, clock);
  return db.transaction(async (transaction) => {
    requireFlowing(await lockDeployment(transaction), "nothing more was corrected");
    await lockStream(transaction, { accountId, mode: stream.mode, kind: stream.kind });
    const minute = minuteOf(second);
    // Another account of the customer may have usage of the minute.
    await lockComparedMinutes(transaction, [{ stream, minute }]);
    const current = await readMinuteUsage(transaction, stream, minute);
    const openIds = await listOpenIds(transaction, stream, minute, current);
    if (current.version !== version || current.isPending || openIds.length > 0) {
      return {
        ...proposed,
        action: "wait",
        reason: "usage of this minute changed in the meantime",
      };
    }
    const correctionId = await insertUsageCorrection(transaction, stream, {
      second,
      quantity: -units,
      restoredAt: options.restoredAt,
      reason: options.reason,
      operator: options.operator,
      now,
      settlement: action === "settle" ? options.document : null,
    });
    await recordAction(
      transaction,
      { kind: "operator", name: options.operator, reason: options.reason },
      now,
      {
        action: "usage.correct",
        accountId,
        subject: `correction ${correctionId}`,
        details: {
          restoredAt: options.restoredAt.toISOString(),
          customerId: stream.customerId,
          kind: stream.kind,
          second,
          units,
          document: action === "settle" ? options.document : null,
        },
      },
    );
    return { ...proposed, correctionId };
  });
};

/**
 * Requires that a document has the units of all corrections that it settles. A minute that became ready after the document
 * was issued would otherwise count as settled by it.
 * @throws DomainError request_invalid
 */
const requireUnits = async (
  db: DatabasePool,
  document: CorrectionDocument,
  proposed: readonly ProposedCorrection[],
): Promise<void> => {
  const before = await sumSettledCorrections(db, document);
  const now = proposed
    .filter(({ action }) => action === "settle")
    .reduce((sum, correction) => sum + unitsOf(correction), 0);
  if (before + now !== document.units) {
    throw invalidRequest(
      `the corrections that ${document.reference} settles have ${counted(before + now, "unit")}, not ${document.units}; ${before} of them are recorded already, and nothing was recorded now`,
    );
  }
};

/**
 * Corrects what a failover lost: units that the processor has in a minute and that neither a registration nor a refund
 * explains. Each correction is recorded in one transaction and is sent like all usage. A repeated or interrupted call
 * records what is left, because recorded corrections count as ours. With a document, all corrections are proposed before
 * the first one is recorded.
 * @throws DomainError request_invalid if live usage is not billed by Stripe, or is held, or the document has other units
 */
export const correctFailover = async (
  context: BillingContext,
  options: FailoverOptions,
  signal: AbortSignal,
): Promise<FailoverReport> => {
  const { db, clock } = context;
  const { accountId, includeLostRefunds, restoredAt, document } = options;
  const processor = await requireFlowingStripe(context);
  const { usageLagMs } = processor;
  const now = await readDatabaseTime(db, clock);
  const span = spanOf(now, restoredAt);
  const listed = { start: Math.min(span.start, defaultSpan(now).start), end: span.end };
  const streams = await listStripeStreams(db, listed, accountId);
  const acknowledgedOf = await readAcknowledgedDrift(db, listed);
  const unreadable: UnreadableStream[] = [];
  const found = await runConcurrently(
    streams,
    async (stream) => {
      const comparison: Comparison = {
        stream,
        acknowledged: acknowledgedOf(stream),
        readTheirs: createUsageReader(processor, stream, signal),
      };
      const proposed: Compared[] = [];
      try {
        for (const minute of await listMinutes(context, comparison, {
          span,
          includeLostRefunds,
          now,
        })) {
          const correction = await proposeCorrection(context, comparison, minute, {
            options,
            usageLagMs,
          });
          if (correction) {
            proposed.push(
              document === null ? await recordCorrection(context, correction, options) : correction,
            );
          }
        }
      } catch (error) {
        if (!(error instanceof UsageUnreadableError)) {
          throw error;
        }
        unreadable.push({ stream, error: error.message });
      }
      return proposed;
    },
    { concurrency: CONCURRENT_READS, signal },
  );
  const corrections = found.flat();
  if (document === null) {
    return { span, corrections, unreadable };
  }
  await requireUnits(db, document, corrections);
  const recorded: Compared[] = [];
  for (const correction of corrections) {
    recorded.push(await recordCorrection(context, correction, options));
  }
  return { span, corrections: recorded, unreadable };
};
