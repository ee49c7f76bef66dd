import type { CommonQueryMethods } from "slonik";
import { insertEvents } from "./events.sql.ts";
import type { NewEvent } from "./events.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { StoredEventContent } from "./events.rules.ts";
import { webhookDataOf } from "./webhooks.rules.ts";
import { newId } from "../../runtime/newId.ts";

/** Gives an event its id, and what its webhooks say. */
export const createEvent = (content: StoredEventContent): NewEvent => ({
  id: newId(),
  ...content,
  webhookData: webhookDataOf(content),
});

/**
 * Records events, in their order, and their deliveries to the endpoints that want them. Call it in the transaction that
 * makes the changes, so that neither is stored without the other.
 */
export const recordEvents = async (
  transaction: CommonQueryMethods,
  owner: AccountMode,
  now: Date,
  contents: readonly StoredEventContent[],
): Promise<void> => {
  if (contents.length > 0) {
    await insertEvents(transaction, owner, contents.map(createEvent), now);
  }
};

/** Records an event, in the transaction that makes the change. */
export const recordEvent = (
  transaction: CommonQueryMethods,
  owner: AccountMode,
  now: Date,
  content: StoredEventContent,
): Promise<void> => recordEvents(transaction, owner, now, [content]);
