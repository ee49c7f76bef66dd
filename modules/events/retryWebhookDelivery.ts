import type { Delivery } from "./deliveries.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { makeDeliveryDue } from "./recovery.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { requireEnabled } from "./pingWebhookEndpoint.ts";
import { getDelivery } from "./readDeliveries.ts";
import { recordWebhookAction } from "./recordWebhookAction.ts";

/**
 * Makes a delivery again within seconds, also one that has succeeded, and repeats it on the schedule if it fails.
 * @throws DomainError record_not_found, or request_invalid if the endpoint is disabled
 */
export const retryWebhookDelivery = (
  { db, clock, actor }: OperatorContext<Actor | null>,
  endpoint: WebhookEndpoint,
  id: string,
): Promise<Delivery> => {
  requireEnabled(endpoint);
  return db.transaction(async (transaction) => {
    const now = clock.now();
    const delivery = await getDelivery(transaction, endpoint.id, id);
    await makeDeliveryDue(transaction, endpoint.id, delivery.id, now);
    await recordWebhookAction(
      transaction,
      actor,
      { action: "webhook.retry", endpoint, details: { delivery: id } },
      now,
    );
    return getDelivery(transaction, endpoint.id, id);
  });
};
