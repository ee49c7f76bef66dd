import type { DatabasePool } from "slonik";
import type { AccountSums, StreamTotals, SummedUsage } from "./reportedStreams.sql.ts";
import { sumReportedAccounts, sumReportedStreams } from "./reportedStreams.sql.ts";
import { listWaitingStreams } from "../sending/waitingStreams.sql.ts";
import { sumUnsealedUsage } from "../usageFacts.sql.ts";
import type { UnsealedQuantity } from "../usageFacts.sql.ts";
import type { BulkPace } from "../../../db/createBulkPace.ts";
import { DAY, HOUR } from "./findDifferences.ts";
import type { Span } from "../usage.rules.ts";
import { nextSize } from "../../../db/bulkWork.rules.ts";

/**
 * Reads a span: whole, or in short steps as long as bulk work yields to what clients record.
 * @param firstPartSeconds the first of these steps; the next ones depend on how long it took
 * @param maximumPartSeconds bounds their growth in time without usage, after which the next step may have much
 */
async function* inParts<Result>(
  { start, end }: Span,
  {
    pace,
    firstPartSeconds,
    maximumPartSeconds,
  }: {
    readonly pace: BulkPace;
    readonly firstPartSeconds: number;
    readonly maximumPartSeconds: number;
  },
  read: (part: Span) => Promise<Result>,
): AsyncGenerator<Result, void, void> {
  let seconds = firstPartSeconds;
  let next = start;
  while (next < end) {
    const part = { start: next, end: pace.isYielding() ? Math.min(end, next + seconds) : end };
    yield await read(part);
    seconds = Math.min(maximumPartSeconds, nextSize(seconds, pace.lastStepMs()));
    next = part.end;
  }
}

const FIRST_GROUP = 10;

/** Reads about items: all together, or in short steps as long as bulk work yields to what clients record. */
async function* inGroups<Item, Result>(
  items: readonly Item[],
  pace: BulkPace,
  read: (group: readonly Item[]) => Promise<Result>,
): AsyncGenerator<Result, void, void> {
  let size = FIRST_GROUP;
  let next = 0;
  while (next < items.length) {
    const end = pace.isYielding() ? next + size : items.length;
    yield await read(items.slice(next, end));
    size = nextSize(size, pace.lastStepMs());
    next = end;
  }
}

/**
 * Sums the usage that is in no meter event.
 * @param accountIds null for all
 */
export const sumUnsealed = async (
  db: DatabasePool,
  pace: BulkPace,
  span: Span,
  accountIds: readonly string[] | null,
): Promise<readonly UnsealedQuantity[]> => {
  if (accountIds !== null || !pace.isYielding()) {
    return sumUnsealedUsage(db, span, accountIds);
  }
  const waiting = new Set((await listWaitingStreams(db)).map((stream) => stream.accountId));
  const groups: (readonly UnsealedQuantity[])[] = [];
  for await (const group of inGroups([...waiting], pace, (ids) =>
    sumUnsealedUsage(db, span, ids),
  )) {
    groups.push(group);
  }
  return groups.flat();
};

const keyOf = ({ processor, mode, kind, customerId }: AccountSums): string =>
  [processor, mode, kind, customerId].join("/");

/**
 * Sums the streams in parts of the span, of which each is as of its own time. The sums of streams that differ are read
 * again before they are reported.
 * @param options.accountId null for all; otherwise the streams of the account, with what other accounts used of them
 */
export const sumStreams = async (
  db: DatabasePool,
  pace: BulkPace,
  span: Span,
  { atStripe, accountId }: { readonly atStripe: Span; readonly accountId: string | null },
): Promise<readonly StreamTotals[]> => {
  const sum = async (of: SummedUsage): Promise<readonly AccountSums[]> => {
    const sums: (readonly AccountSums[])[] = [];
    const sizes = { firstPartSeconds: HOUR, maximumPartSeconds: DAY };
    for await (const part of inParts(span, { pace, ...sizes }, (each) =>
      sumReportedAccounts(db, each, { atStripe, of }),
    )) {
      sums.push(part);
    }
    return sums.flat();
  };
  if (accountId === null) {
    return sumReportedStreams(db, await sum(null));
  }
  const own = await sum({ accountId });
  const customerIds = [...new Set(own.map(({ customerId }) => customerId))].filter(
    (customerId) => customerId !== null,
  );
  const others =
    customerIds.length === 0 ? [] : await sum({ customerIds, exceptAccountId: accountId });
  const keys = new Set(own.map(keyOf));
  return sumReportedStreams(db, [...own, ...others.filter((each) => keys.has(keyOf(each)))]);
};
