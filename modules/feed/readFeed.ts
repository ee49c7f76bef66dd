import type { FeedEvent } from "./feed.sql.ts";
import { readFeedPage } from "./feed.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { EventType } from "../events/events.rules.ts";
import {
  EVENT_DAYS,
  EVENT_TYPES,
  eventIdOf,
  expiredBefore,
  keptSince,
  parseEventId,
} from "../events/events.rules.ts";
import type { Context } from "../../runtime/context.ts";

/** A page is held in memory. */
const PAGE_BYTES = 768 * 1024;

const gone = (why: string): DomainError =>
  new DomainError(
    "event_gone",
    `starting_after: ${why}. Compare your copy with the lists of records, and read the feed from its start, without starting_after`,
  );

const unknown = (): DomainError =>
  gone(
    "the event is unknown; it was deleted because of its age, or lost when the database was restored",
  );

/**
 * Reads events of an account and mode, oldest first, each once. Those of a transaction are shown when all older
 * transactions have ended, so none can appear before one that was already read.
 * @param page.startingAfter the id of the last event that was read; null for the oldest event that is kept
 * @returns `hasMore`: whether more events can be read immediately. `heldBackSince`: as `readFeedPage` returns it
 * @throws DomainError event_gone if it is unknown, or events that follow it may have been deleted
 */
export const readFeed = async (
  { db, clock }: Context,
  owner: AccountMode,
  page: {
    readonly types: readonly EventType[];
    readonly startingAfter: string | null;
    readonly limit: number;
  },
) => {
  const { types, startingAfter, limit } = page;
  const after = startingAfter === null ? null : parseEventId(startingAfter);
  if (startingAfter !== null && (after === null || after.transactionId === 0n)) {
    throw unknown();
  }
  const now = clock.now();
  const { isKnown, isFromElsewhere, ...feed } = await readFeedPage(db, {
    owner,
    types,
    after,
    keptSince: keptSince(now),
    limits: { events: limit, bytes: PAGE_BYTES },
  });
  if (after !== null && !isKnown) {
    throw unknown();
  }
  const [next] = feed.events;
  // The newest of the deleted events of a type is kept, so the first one that follows is at least as old.
  if (after !== null && next !== undefined && next.createdAt < expiredBefore(now)) {
    throw gone(
      `events that follow it are older than ${EVENT_DAYS} days, and some may have been deleted`,
    );
  }
  if (isFromElsewhere && !feed.hasMore) {
    throw new Error(
      "The records come from another PostgreSQL server, whose transactions had higher numbers. Renumber them as docs/backup.md#events-after-a-restored-dump says.",
    );
  }
  return feed;
};

const PAGE_EVENTS = 1000;

/** Yields all events of an account and mode that are shown now, or those of a time, oldest first, in pages. */
export async function* readWholeFeed(
  context: Context,
  owner: AccountMode,
  { from, until }: { readonly from?: Date; readonly until?: Date },
): AsyncGenerator<readonly FeedEvent[], void, void> {
  let last: FeedEvent | undefined;
  for (let hasMore = true; hasMore;) {
    const startingAfter = last ? eventIdOf(last) : null;
    const options = { types: EVENT_TYPES, startingAfter, limit: PAGE_EVENTS };
    const page = await readFeed(context, owner, options);
    yield page.events.filter(
      ({ createdAt }) =>
        (from === undefined || createdAt >= from) && (until === undefined || createdAt < until),
    );
    last = page.events.at(-1);
    ({ hasMore } = page);
  }
}
