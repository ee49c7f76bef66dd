import type { CommonQueryMethods } from "slonik";
import type { NewAuditEntry } from "../../db/accounts/auditEntries.ts";
import { insertAuditEntry } from "../../db/accounts/auditEntries.ts";
import type { Actor } from "../../domain/accounts/audit.ts";

/** An action without an account concerns the whole deployment. */
export type Action = Pick<NewAuditEntry, "action"> & Partial<NewAuditEntry>;

/**
 * Records an action in the audit log. Call it in the transaction of the change, so that neither is stored without the
 * other.
 */
export const recordAction = (
  transaction: CommonQueryMethods,
  actor: Actor,
  { action, accountId = null, subject = null, details = {} }: Action,
  now: Date,
): Promise<void> =>
  insertAuditEntry(transaction, actor, { action, accountId, subject, details }, now);
