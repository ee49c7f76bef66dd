import type { CommonQueryMethods, DatabasePool } from "slonik";
import type { Owner } from "../../records/owner.rules.ts";
import { listBillingPeriods } from "../billingPeriods.sql.ts";
import { readDeployment } from "../deployment.sql.ts";
import {
  findPart,
  foldSeconds,
  listStreamsWithEvents,
  sumFoldable,
  sumFoldedHours,
} from "./foldUsage.sql.ts";
import type { FoldedPart, StreamWithEvents } from "./foldUsage.sql.ts";
import { unhurriedPace, openBulkPool } from "../../../db/createBulkPace.ts";
import type { BulkPace } from "../../../db/createBulkPace.ts";
import { lockStream } from "../streams.sql.ts";
import { requireFlowing } from "../deployment.rules.ts";
import {
  FIRST_SECONDS,
  foldableUntil,
  latestFoldTime,
  nextSeconds,
  requireSameUnits,
  requireSettledAge,
} from "./foldUsage.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import type { Span } from "../usage.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { correctClock } from "../readDatabaseTime.ts";

export type FoldOptions = {
  readonly before: Date;
  /** Null: of all organizations. */
  readonly accountId: string | null;
  /** Counts only. */
  readonly isDryRun: boolean;
};

/** What was folded of a stream, or would be. */
export type FoldedStream = Pick<StreamWithEvents, "accountId" | "accountName" | "kind"> & {
  /** Usage of this time and later stays: it is too young for its billing period. */
  readonly until: Date;
  readonly facts: number;
  readonly events: number;
  readonly units: bigint;
  /** Meter events before that time that stay, because something about their second is not plain. */
  readonly kept: number;
};

export type FoldProgress = {
  /** Streams that are done. */
  readonly streams: number;
  readonly allStreams: number;
  readonly facts: number;
};

/**
 * After a restore or failover, events that count as delivered may be missing at the processor.
 * @throws DomainError request_invalid if usage is held
 */
const requireFoldable = async (db: CommonQueryMethods): Promise<void> =>
  requireFlowing(await readDeployment(db), "nothing more was folded");

/** Folds a part of a stream in one transaction, under the stream's lock, and compares the sums before it commits. */
const foldPart = (
  { db, clock, actor }: OperatorContext,
  stream: Owner,
  part: Span,
  { before, accountId, isFirst }: Omit<FoldOptions, "isDryRun"> & { readonly isFirst: boolean },
): Promise<FoldedPart> =>
  db.transaction(async (transaction) => {
    await lockStream(transaction, stream);
    await requireFoldable(transaction);
    const now = clock.now();
    const sumsBefore = await sumFoldedHours(transaction, stream, part);
    const settledBefore = latestFoldTime(now);
    const folded = await foldSeconds(transaction, stream, part, { settledBefore, now });
    requireSameUnits(sumsBefore, folded, await sumFoldedHours(transaction, stream, part));
    if (isFirst && folded.events > 0) {
      await recordAction(transaction, actor, now, {
        action: "usage.fold",
        accountId,
        details: { before: before.toISOString() },
      });
    }
    return folded;
  });

type Step = (stream: Owner, part: Span) => Promise<FoldedPart>;

const foldStream = async (
  { db, pace }: { readonly db: DatabasePool; readonly pace: BulkPace },
  { firstSecond, ...found }: StreamWithEvents,
  until: Date,
  step: Step,
): Promise<FoldedStream> => {
  const stream: Owner = { accountId: found.accountId, mode: "live", kind: found.kind };
  const sums = { facts: 0, events: 0, units: 0n, kept: 0 };
  let maximumSeconds = FIRST_SECONDS;
  let rest: Span = { start: firstSecond, end: secondOf(until) };
  for (;;) {
    const part = await findPart(db, stream, rest, maximumSeconds);
    if (!part) {
      const { accountId, accountName, kind } = found;
      return { accountId, accountName, kind, until, ...sums };
    }
    const folded = await step(stream, { start: rest.start, end: part.end });
    sums.facts += folded.facts;
    sums.events += folded.events;
    sums.units += folded.units;
    sums.kept += folded.kept;
    maximumSeconds = nextSeconds({ seconds: part.seconds, facts: folded.facts }, pace.isYielding());
    rest = { start: part.end, end: rest.end };
  }
};

/**
 * Folds settled live usage: deletes its facts and meter events, and keeps their units by hour and second. Whatever is not
 * plainly delivered stays. Each transaction folds whole seconds of one stream, so an interrupted call loses nothing, and a
 * repeated one goes on with what is left.
 * @throws DomainError request_invalid if usage before the time may still change, or usage is held
 */
export const foldUsage = async (
  { pace = unhurriedPace, ...given }: OperatorContext & { readonly pace?: BulkPace },
  { before, accountId, isDryRun }: FoldOptions,
  onProgress: (progress: FoldProgress) => void,
): Promise<readonly FoldedStream[]> => {
  const db = openBulkPool(given.db, pace);
  const context = { ...given, db, clock: await correctClock(db, given.clock) };
  const now = context.clock.now();
  requireSettledAge(before, now);
  await requireFoldable(db);
  const streams = await listStreamsWithEvents(db, { accountId, before: secondOf(before) });
  const done: FoldedStream[] = [];
  const progress = { allStreams: streams.length, facts: 0 };
  let isFirst = true;
  const step: Step = async (stream, part) => {
    const folded = isDryRun
      ? await sumFoldable(db, stream, part, latestFoldTime(now))
      : await foldPart(context, stream, part, { before, accountId, isFirst });
    isFirst &&= folded.events === 0;
    progress.facts += folded.facts;
    onProgress({ ...progress, streams: done.length });
    return folded;
  };
  for (const stream of streams) {
    const periods = (await listBillingPeriods(db, stream.accountId)).filter(
      ({ kind }) => kind === stream.kind,
    );
    const until = foldableUntil(before, { billingDay: stream.billingDay, periods }, now);
    done.push(await foldStream({ db, pace }, stream, until, step));
  }
  return done;
};
