import type { CommonQueryMethods } from "slonik";
import { insertEvents } from "./events.sql.ts";
import type { NewEvent } from "./events.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { StoredEventContent } from "./events.rules.ts";
import { newId } from "../../runtime/newId.ts";

/** Gives an owner's event its id. */
export const createEvent = (
  { accountId, mode }: AccountMode,
  content: StoredEventContent,
): NewEvent => ({ id: newId(), accountId, mode, ...content });

/** An event of an owner. */
export type OwnedEvent = AccountMode & { readonly content: StoredEventContent };

/**
 * Records events of any owners, in their order, and their deliveries to the endpoints that want them. Call it in the
 * transaction that makes the changes, so that neither is stored without the other.
 */
export const recordEventsOfOwners = async (
  transaction: CommonQueryMethods,
  now: Date,
  events: readonly OwnedEvent[],
): Promise<void> => {
  if (events.length > 0) {
    const created = events.map((event) => createEvent(event, event.content));
    await insertEvents(transaction, created, now);
  }
};

/** The same for events of one owner. */
export const recordEvents = (
  transaction: CommonQueryMethods,
  { accountId, mode }: AccountMode,
  now: Date,
  contents: readonly StoredEventContent[],
): Promise<void> =>
  recordEventsOfOwners(
    transaction,
    now,
    contents.map((content) => ({ accountId, mode, content })),
  );

/** Records an event, in the transaction that makes the change. */
export const recordEvent = (
  transaction: CommonQueryMethods,
  owner: AccountMode,
  now: Date,
  content: StoredEventContent,
): Promise<void> => recordEvents(transaction, owner, now, [content]);
