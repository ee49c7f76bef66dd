import type { CommonQueryMethods } from "slonik";
import type { NewAuditEntry } from "./auditEntries.sql.ts";
import { insertAuditEntry } from "./auditEntries.sql.ts";
import { withSnakeCaseNames } from "./audit.rules.ts";
import type { Actor } from "./audit.rules.ts";

/** An action without an account concerns the whole deployment. */
export type Action = Pick<NewAuditEntry, "action"> & Partial<NewAuditEntry>;

/**
 * Records an action in the audit log. Call it in the transaction of the change, so that neither is stored without the
 * other. Names in the details are stored in snake_case, as in all JSON output. Those of a platform's request have its signature.
 */
export const recordAction = (
  transaction: CommonQueryMethods,
  actor: Actor,
  now: Date,
  { action, accountId = null, subject = null, details = {} }: Action,
): Promise<void> =>
  insertAuditEntry(
    transaction,
    actor,
    {
      action,
      accountId,
      subject,
      details: {
        ...withSnakeCaseNames(details),
        ...(actor.kind === "platform" ? { signature: actor.signature } : {}),
      },
    },
    now,
  );
