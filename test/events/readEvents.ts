import { setTimeout as delay } from "node:timers/promises";
import type { FeedEvent } from "../../modules/feed/feed.sql.ts";
import type { AccountMode } from "../../modules/records/owner.rules.ts";
import { EVENT_TYPES } from "../../modules/events/events.rules.ts";
import { readFeed } from "../../modules/feed/readFeed.ts";

const DEADLINE_MS = 150_000;

/** Repeats a read until nothing is held back. Transactions of other test files hold events back, too. */
export const untilComplete = async <Page>(
  read: () => Promise<Page>,
  isHeldBack: (page: Page) => boolean,
): Promise<Page> => {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const page = await read();
    if (!isHeldBack(page)) {
      return page;
    }
    if (Date.now() > deadline) {
      throw new Error("Events are still held back.");
    }
    await delay(5);
  }
};

type Reading = Partial<Parameters<typeof readFeed>[2]>;

/** Reads the feed, without HTTP, until nothing is held back. */
export const readEvents = async (
  deps: Parameters<typeof readFeed>[0],
  owner: AccountMode,
  { types = EVENT_TYPES, startingAfter = null, limit = 10 }: Reading = {},
): Promise<readonly FeedEvent[]> => {
  const { events } = await untilComplete(
    () => readFeed(deps, owner, { types, startingAfter, limit }),
    ({ heldBackSince }) => heldBackSince !== null,
  );
  return events;
};

export const refunded = (name: string) => ({
  type: "registration.refunded" as const,
  data: { registration_id: name, kind: "tree" as const, count: 1, remaining_count: 0, reason: "" },
});
