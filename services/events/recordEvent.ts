import type { CommonQueryMethods } from "slonik";
import { insertEvents } from "../../db/events/events.ts";
import type { NewEvent } from "../../db/events/events.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { StoredEventContent } from "../../domain/events/events.ts";
import { webhookDataOf } from "../../domain/events/webhookPayloads.ts";
import { newId } from "../newId.ts";

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
