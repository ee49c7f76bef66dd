import type { CommonQueryMethods } from "slonik";
import { insertEvents } from "./events.sql.ts";
import type { NewEvent } from "./events.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { StoredEventContent } from "./events.rules.ts";
import { newId } from "../../runtime/newId.ts";

export const createEvent = (
  { accountId, mode }: AccountMode,
  content: StoredEventContent,
): NewEvent => ({ id: newId(), accountId, mode, ...content });

/**
 * Records an event, and its deliveries to the endpoints that want it. Call it in the transaction that makes the change, so that
 * neither is stored without the other. A rejection is recorded in one that commits.
 */
export const recordEvent = (
  transaction: CommonQueryMethods,
  owner: AccountMode,
  now: Date,
  content: StoredEventContent,
): Promise<void> => insertEvents(transaction, [createEvent(owner, content)], now);
