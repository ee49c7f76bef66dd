import { eventIdOf } from "./events.rules.ts";
import type { EventContent, FeedPosition } from "./events.rules.ts";

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
