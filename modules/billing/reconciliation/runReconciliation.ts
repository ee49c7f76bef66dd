import type { DatabasePool } from "slonik";
import {
  failReconciliation,
  insertReconciliation,
  listReconciliationStreams,
  replaceReconciliationStreams,
  updateReconciliation,
  listReconciliationDifferences,
} from "./reconciliations.sql.ts";
import type { BulkPace } from "../../../db/createBulkPace.ts";
import type { StoredDifference, StoredStream } from "./reconciliations.sql.ts";
import type { Span } from "../usage.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import type { Context } from "../../../runtime/context.ts";
import { correctClock } from "../readDatabaseTime.ts";
import type { BillingContext } from "../context.ts";
import {
  defaultSpan,
  listStreamsNeedingAttention,
  nameEvents,
  reconcileUsage,
} from "./reconcileUsage.ts";
import type { NamedDifference, StreamReport } from "./reconcileUsage.ts";

export type ReconciliationPoll = {
  /** All compared streams. Later polls compare only those that drifted in the poll before. */
  readonly streams: readonly StreamReport[];
  /** The streams that differ or could not be read. */
  readonly drifting: readonly StreamReport[];
};

/** Returns why a poll does not count as a success: the processor may be down or not configured. */
const failureOf = (drifting: readonly StreamReport[]): string | null => {
  const unread = drifting.filter(({ errorIsTemporary }) => errorIsTemporary);
  return unread.length === 0
    ? null
    : `${counted(unread.length, "stream")} could not be read, such as ${unread[0]?.accountName}: ${unread[0]?.error}`;
};

/**
 * Makes one poll of a reconciliation and stores its result. It can be repeated: the first poll compares all streams,
 * every later one those that the last stored poll found.
 * @param reconciliation.id a UUID; a reconciliation of this id is continued
 * @param reconciliation.isFinal the reconciliation ends with this poll, even if streams drift
 * @param reconciliation.accountId null for all
 * @param reconciliation.span null for the default one
 */
export const runReconciliation = async (
  context: BillingContext & { readonly pace?: BulkPace | undefined },
  {
    id,
    isFinal,
    accountId = null,
    span = null,
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
    isComplete: accountId === null && span === null,
    span: span ?? defaultSpan(startedAt),
    startedAt,
  });
  const { streams } = await reconcileUsage(
    context,
    {
      accountId,
      among: stored.streams === null ? null : await listReconciliationStreams(db, id),
      span: { start: stored.startSecond, end: stored.endSecond },
    },
    signal,
  );
  const drifting = listStreamsNeedingAttention(streams);
  const isLast = isFinal || drifting.length === 0;
  await db.transaction(async (transaction) => {
    await replaceReconciliationStreams(transaction, id, drifting);
    await updateReconciliation(transaction, id, {
      streams: streams.length,
      drifting: drifting.filter(({ drift }) => drift !== null).length,
      unreadable: drifting.filter(({ drift }) => drift === null).length,
      driftUnits: drifting.reduce(
        (sum, { drift, acknowledged }) =>
          sum + (drift === null ? 0 : Math.abs(drift - acknowledged)),
        0,
      ),
      endedAt: isLast ? clock.now() : null,
      error: isLast ? failureOf(drifting) : null,
    });
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

/** A stream that drifted or could not be read, with the meter events and registrations of its differing minutes. */
export type DriftingStream = StoredStream & {
  readonly differences: readonly NamedDifference<StoredDifference>[];
};

/** Returns the stored streams of a reconciliation that drifted or could not be read. */
export const readReconciliation = async (
  db: DatabasePool,
  id: string,
): Promise<readonly DriftingStream[]> => {
  const drifting: DriftingStream[] = [];
  for (const stream of await listReconciliationStreams(db, id)) {
    const differences = await listReconciliationDifferences(db, stream.id);
    drifting.push({ ...stream, differences: await nameEvents(db, stream, differences) });
  }
  return drifting;
};
