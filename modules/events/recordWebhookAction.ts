import type { CommonQueryMethods } from "slonik";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import type { Actor, AuditAction } from "../accounts/audit.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";

/** Records what an operator did to an endpoint. The path of a URL may be a secret, which the audit log would keep forever. */
export const recordWebhookAction = async (
  transaction: CommonQueryMethods,
  actor: Actor | null,
  {
    action,
    endpoint: { id, accountId, mode, url },
    details = {},
  }: {
    readonly action: AuditAction;
    readonly endpoint: WebhookEndpoint;
    readonly details?: Readonly<Record<string, unknown>>;
  },
  now: Date,
): Promise<void> => {
  if (actor) {
    await recordAction(transaction, actor, now, {
      action,
      accountId,
      subject: id,
      details: { mode, origin: new URL(url).origin, ...details },
    });
  }
};
