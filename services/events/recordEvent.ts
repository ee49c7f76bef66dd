import type { CommonQueryMethods } from "slonik";
import { v7 as newId } from "uuid";
import { insertEvent } from "../../db/events/events.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { StoredEventContent } from "../../domain/events/events.ts";

/**
 * Records an event. Call it in the transaction that makes the change, so that neither is stored without the other.
 */
export const recordEvent = (
  transaction: CommonQueryMethods,
  owner: AccountMode,
  content: StoredEventContent,
  now: Date,
): Promise<void> => insertEvent(transaction, owner, { id: newId(), ...content }, now);
