import type { Delivery } from "./deliveries.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { makeDeliveryDue } from "./recovery.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { requireEnabled, recordWebhookAction } from "./manageWebhookEndpoints.ts";
import { getDelivery } from "./readDeliveries.ts";

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
    const details = { delivery: id };
    await recordWebhookAction(transaction, actor, now, "webhook.retry", endpoint, details);
    return getDelivery(transaction, endpoint.id, id);
  });
};
