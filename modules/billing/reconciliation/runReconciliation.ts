import {
  failReconciliation,
  insertReconciliation,
  updateReconciliation,
} from "./reconciliations.sql.ts";
import type { BulkPace } from "../../../db/createBulkPace.ts";
import type { Span } from "../usage.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import type { Context } from "../../../runtime/context.ts";
import { correctClock } from "../readDatabaseTime.ts";
import type { BillingContext } from "../context.ts";
import {
  defaultSpan,
  listStreamsNeedingAttention,
  listUnexplained,
  MAXIMUM_DIFFERENCES,
  reconcileUsage,
} from "./reconcileUsage.ts";
import type { StreamReport } from "./reconcileUsage.ts";
import { replaceOpenDifferences } from "./usageDifferences.sql.ts";

export type ReconciliationPoll = {
  /** All compared streams. Later polls compare only those that differed in the poll before. */
  readonly streams: readonly StreamReport[];
  /** The streams that differ or could not be read. */
  readonly drifting: readonly StreamReport[];
};

/** Returns why a poll does not count as a success: the processor may be down or not configured. */
const failureOf = (drifting: readonly StreamReport[]): string | null => {
  const unread = drifting.filter(({ isErrorTemporary }) => isErrorTemporary);
  return unread.length === 0
    ? null
    : `${counted(unread.length, "stream")} could not be read, such as ${unread[0]?.accountName}: ${unread[0]?.error}`;
};

/** Returns the part of a span in which a stream was compared: with very many differences, up to the last one that was found. */
const comparedSpan = ({ differences }: StreamReport, { start, end }: Span): Span => ({
  start,
  end: differences.length < MAXIMUM_DIFFERENCES ? end : (differences.at(-1)?.second ?? end),
});

/**
 * Makes one poll of a reconciliation and stores its result. It can be repeated: the first poll compares all streams,
 * every later one those that the last stored poll found. The last poll stores what no event explains as open differences.
 * @param reconciliation.id a UUID; a reconciliation of this id is continued
 * @param reconciliation.isFinal the reconciliation ends with this poll, even if streams differ
 * @param reconciliation.accountId null for all
 * @param reconciliation.span null for the default one
 */
export const runReconciliation = async (
  context: BillingContext & { readonly pace?: BulkPace | undefined },
  {
    id,
    isFinal,
    accountId = null,
    span: givenSpan = null,
  }: {
    readonly id: string;
    readonly isFinal: boolean;
    readonly accountId?: string | null;
    readonly span?: Span | null;
  },
  signal: AbortSignal,
): Promise<ReconciliationPoll> => {
  const { db } = context;
  const clock = await correctClock(db, context.clock);
  const startedAt = clock.now();
  const stored = await insertReconciliation(db, {
    id,
    isComplete: accountId === null && givenSpan === null,
    span: givenSpan ?? defaultSpan(startedAt),
    startedAt,
  });
  const span = { start: stored.startSecond, end: stored.endSecond };
  const streams = await reconcileUsage(
    context,
    {
      accountId,
      among: stored.streams === null ? null : stored.found,
      span,
    },
    signal,
  );
  const drifting = listStreamsNeedingAttention(streams);
  const isLast = isFinal || drifting.length === 0;
  await db.transaction(async (transaction) => {
    await updateReconciliation(transaction, id, {
      streams: streams.length,
      found: drifting.map(({ differences: _differences, ...stream }) => stream),
      endedAt: isLast ? clock.now() : null,
      error: isLast ? failureOf(drifting) : null,
    });
    // A stream that agreed in an earlier poll has no open difference; those of this poll are final.
    for (const stream of streams.filter(({ error }) => error === null)) {
      const found = listUnexplained(stream);
      if (isLast || found.length === 0) {
        const compared = comparedSpan(stream, span);
        await replaceOpenDifferences(transaction, stream, compared, found, startedAt);
      }
    }
  });
  return { streams, drifting };
};

/** Stores that a reconciliation could not be finished, so that its failure is seen. */
export const recordReconciliationFailure = async (
  { db, clock }: Context,
  { id, error }: { readonly id: string; readonly error: string },
): Promise<void> => {
  const startedAt = clock.now();
  // It may have failed before anything was stored.
  await insertReconciliation(db, { id, isComplete: true, span: defaultSpan(startedAt), startedAt });
  await failReconciliation(db, id, error, startedAt);
};
