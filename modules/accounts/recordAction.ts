import type { CommonQueryMethods } from "slonik";
import type { Action } from "./auditEntries.sql.ts";
import { insertAuditEntry } from "./auditEntries.sql.ts";
import type { Actor } from "./audit.rules.ts";

/**
 * Records an action in the audit log. Call it in the transaction of the change, so that neither is stored without the
 * other. Names in the details are stored in snake_case, as in all JSON output. Those of a platform's request have its signature.
 */
export const recordAction = (
  transaction: CommonQueryMethods,
  actor: Actor,
  now: Date,
  { details = {}, ...action }: Action,
): Promise<void> => {
  const signed = actor.kind === "platform" ? { ...details, signature: actor.signature } : details;
  return insertAuditEntry(transaction, actor, { ...action, details: signed }, now);
};
