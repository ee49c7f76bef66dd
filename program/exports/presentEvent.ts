import type { FeedEvent } from "../../db/events/feed.ts";
import { eventIdOf } from "../../domain/events/events.ts";

/** An event as clients and operators see it. */
export const presentEvent = ({ transactionId, id, createdAt, ...content }: FeedEvent) => ({
  id: eventIdOf({ transactionId, id }),
  timestamp: createdAt.toISOString(),
  ...content,
});
