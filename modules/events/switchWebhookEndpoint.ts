import { failPendingDeliveries } from "./deliveries.sql.ts";
import { disableEndpoint, enableEndpoint } from "./endpoints.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordWebhookAction } from "./recordWebhookAction.ts";
import { getWebhookEndpoint } from "./getWebhookEndpoint.ts";

/**
 * Enables or disables an endpoint. Disabling ends its pending deliveries, up to a thousand of them immediately and the others
 * within seconds or minutes. Nothing is recorded for it until it is enabled. Both can be recovered then; what has not ended
 * by then is delivered. Repeating it changes nothing.
 * @throws DomainError record_not_found if the endpoint was deleted meanwhile
 */
export const switchWebhookEndpoint = (
  { db, clock, actor }: OperatorContext<Actor | null>,
  { id }: WebhookEndpoint,
  state: "enabled" | "disabled",
): Promise<WebhookEndpoint> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const endpoint =
      state === "enabled"
        ? await enableEndpoint(transaction, id)
        : await disableEndpoint(transaction, id, "requested", now);
    if (endpoint === null) {
      return getWebhookEndpoint(transaction, id);
    }
    if (state === "disabled") {
      await failPendingDeliveries(transaction, id);
    }
    await recordWebhookAction(
      transaction,
      actor,
      { action: state === "enabled" ? "webhook.enable" : "webhook.disable", endpoint },
      now,
    );
    return endpoint;
  });
