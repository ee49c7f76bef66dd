import type { CommonQueryMethods } from "slonik";
import { findEventBoundary } from "../../db/events/eventDays.ts";
import type { FeedEvent } from "../../db/events/feed.ts";
import {
  hasEventAt,
  hasEventsBetween,
  readEventsAfter,
  readFeedState,
} from "../../db/events/feed.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type { EventType, FeedPosition } from "../../domain/events/events.ts";
import { EVENT_DAYS, parseEventId } from "../../domain/events/events.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** A page is held in memory. */
const PAGE_BYTES = 768 * 1024;

const FIRST_ID = "00000000-0000-0000-0000-000000000000";

export type Feed = {
  readonly events: readonly FeedEvent[];
  /** Whether more events can be read immediately. */
  readonly hasMore: boolean;
  /** Since when events are recorded that are not shown yet, because an older transaction is open; null if there are none. */
  readonly heldBackSince: Date | null;
};

type Dependencies = { readonly db: CommonQueryMethods; readonly clock: Clock };

/** The time from which on all events are kept. */
export const keptSince = (now: Date): Date => new Date(now.getTime() - EVENT_DAYS * DAY_MS);

const gone = (why: string): DomainError =>
  new DomainError(
    "event_gone",
    `starting_after: ${why}. Compare your copy with the lists of records, and read the feed from its start, without starting_after`,
  );

/** @throws DomainError request_invalid or event_gone */
const requirePosition = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  types: readonly EventType[],
  startingAfter: string,
  boundary: bigint,
): Promise<FeedPosition> => {
  const position = parseEventId(startingAfter);
  if (position === null) {
    throw new DomainError("request_invalid", "starting_after: must be the id of an event");
  }
  if (!(await hasEventAt(db, owner, position))) {
    throw gone(
      "the event is unknown; it was deleted because of its age, or lost when the database was restored",
    );
  }
  if (
    position.transactionId < boundary &&
    (await hasEventsBetween(db, owner, types, position, boundary))
  ) {
    throw gone(
      `events that follow it are older than ${EVENT_DAYS} days, and some may have been deleted`,
    );
  }
  return position;
};

/**
 * Reads events of an account and mode, oldest first, each once. Those of a transaction are shown when all older
 * transactions have ended, so none can appear before one that was already read.
 * @param startingAfter the id of the last event that was read; null for the oldest event that is kept
 * @throws DomainError request_invalid if it is no id of an event; event_gone if it is unknown, or events that follow it may
 * have been deleted
 */
export const readFeed = async (
  { db, clock }: Dependencies,
  owner: AccountMode,
  {
    types,
    startingAfter,
    limit,
  }: {
    readonly types: readonly EventType[];
    readonly startingAfter: string | null;
    readonly limit: number;
  },
): Promise<Feed> => {
  const boundary = await findEventBoundary(db, keptSince(clock.now()));
  const after =
    startingAfter === null
      ? { transactionId: boundary, id: FIRST_ID }
      : await requirePosition(db, owner, types, startingAfter, boundary);
  // Before the events, so that an event that is not held back then is among them.
  const { heldBackSince, isFromElsewhere } = await readFeedState(db, owner, types);
  if (isFromElsewhere) {
    throw new Error(
      "The records come from another PostgreSQL server, whose transactions had higher numbers. Renumber them as docs/backup.md#events-after-a-copy says.",
    );
  }
  const page = await readEventsAfter(db, owner, types, after, { events: limit, bytes: PAGE_BYTES });
  return { ...page, heldBackSince: page.hasMore ? null : heldBackSince };
};
