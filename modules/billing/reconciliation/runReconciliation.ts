import { insertReconciliation } from "./reconciliations.sql.ts";
import type { BulkPace } from "../../../db/createBulkPace.ts";
import type { Span } from "../usage.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
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
import type { FoundUnits } from "./usageDifferences.sql.ts";

export type Reconciliation = {
  readonly streams: readonly StreamReport[];
  /** The ids of the differences that no event explains. */
  readonly openIds: ReadonlyMap<FoundUnits, bigint>;
  /** The streams that differ or could not be read. */
  readonly drifting: readonly StreamReport[];
  /** Why it does not count as a success: the processor may be down or not configured. */
  readonly failure: string | null;
};

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
 * Compares the processor's sums with ours, and stores what no event explains as open differences. It can be repeated.
 * @param options.accountId only the streams of this account; null for all
 * @param options.span null for the default one. Only a reconciliation of all accounts in that is stored
 */
export const runReconciliation = async (
  context: BillingContext & { readonly pace?: BulkPace | undefined },
  {
    accountId = null,
    span: givenSpan = null,
  }: { readonly accountId?: string | null; readonly span?: Span | null },
  signal: AbortSignal,
): Promise<Reconciliation> => {
  const { db } = context;
  const clock = await correctClock(db, context.clock);
  const startedAt = clock.now();
  const span = givenSpan ?? defaultSpan(startedAt);
  const streams = await reconcileUsage(context, { accountId, span }, signal);
  const drifting = listStreamsNeedingAttention(streams);
  const failure = failureOf(drifting);
  const openIds = await db.transaction(async (transaction) => {
    const ids: (readonly [FoundUnits, bigint])[] = [];
    for (const stream of streams.filter(({ error }) => error === null)) {
      const compared = comparedSpan(stream, span);
      const found = listUnexplained(stream);
      ids.push(...(await replaceOpenDifferences(transaction, stream, compared, found, startedAt)));
    }
    if (accountId === null && givenSpan === null) {
      await insertReconciliation(transaction, {
        startedAt,
        endedAt: clock.now(),
        streams: streams.length,
        unreadable: drifting.flatMap(({ kind, customerId, accountIds, accountName, error }) =>
          error === null ? [] : [{ kind, customerId, accountIds, accountName, error }],
        ),
        error: failure,
      });
    }
    return new Map(ids);
  });
  return { streams, openIds, drifting, failure };
};
