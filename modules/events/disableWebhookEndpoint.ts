import type { DatabaseTransactionConnection } from "slonik";
import { disableEndpoint } from "./endpoints.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import type { DisabledReason } from "./events.rules.ts";
import { recordEvent } from "./recordEvent.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { Actor } from "../accounts/audit.rules.ts";

/**
 * Disables an endpoint that is not disabled. What is pending waits until it is enabled, and nothing is recorded for it until
 * then. Its owner learns of it by an event, in the feed and at other endpoints.
 * @param options.url the URL that is the reason; null if the endpoint is disabled whatever its URL is
 * @returns null if nothing was changed: it was disabled or deleted already, or has another URL
 */
export const disableWebhookEndpoint = async (
  transaction: DatabaseTransactionConnection,
  id: string,
  options: {
    readonly reason: DisabledReason;
    readonly url: string | null;
    readonly now: Date;
    /** Null for the owner, who gets no event and is not in the audit log. */
    readonly actor: Actor | null;
  },
): Promise<WebhookEndpoint | null> => {
  const { reason, now, actor } = options;
  const endpoint = await disableEndpoint(transaction, id, options);
  if (endpoint === null) {
    return null;
  }
  const { accountId, mode, lastError, url } = endpoint;
  const { origin } = new URL(url);
  if (actor) {
    await recordEvent(transaction, { accountId, mode }, now, {
      type: "webhook_endpoint.disabled",
      data: { endpoint_id: id, url_origin: origin, disabled_reason: reason, last_error: lastError },
    });
    await recordAction(transaction, actor, now, {
      action: "webhook.disable",
      accountId,
      subject: id,
      details: { mode, origin, reason, error: lastError },
    });
  }
  return endpoint;
};
