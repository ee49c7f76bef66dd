import { eventIdOf } from "./events.ts";
import type { EventContent, FeedPosition } from "./events.ts";

/** An event as clients and operators see it. */
export const presentEvent = ({
  transactionId,
  id,
  createdAt,
  ...content
}: FeedPosition & EventContent & { readonly createdAt: Date }) => ({
  id: eventIdOf({ transactionId, id }),
  timestamp: createdAt.toISOString(),
  ...content,
});
