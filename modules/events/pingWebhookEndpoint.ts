import { insertDelivery } from "./deliveries.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { eventIdOf } from "./events.rules.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordWebhookAction } from "./recordWebhookAction.ts";
import { newId } from "../../runtime/newId.ts";

export const ENDPOINT_DISABLED = "the webhook endpoint is disabled; enable it first";

/** @throws DomainError request_invalid */
export const requireEnabled = ({ disabledAt }: WebhookEndpoint): void => {
  if (disabledAt !== null) {
    throw invalidRequest(ENDPOINT_DISABLED);
  }
};

/**
 * Sends an endpoint a `ping`, whatever types it has chosen.
 * @returns the id of the delivery
 * @throws DomainError request_invalid if the endpoint is disabled
 */
export const pingWebhookEndpoint = (
  { db, clock, actor }: OperatorContext<Actor | null>,
  endpoint: WebhookEndpoint,
): Promise<string> =>
  db.transaction(async (transaction) => {
    requireEnabled(endpoint);
    const now = clock.now();
    const position = await insertDelivery(
      transaction,
      { endpointId: endpoint.id, id: newId(), type: "ping", data: { endpoint_id: endpoint.id } },
      now,
    );
    await recordWebhookAction(transaction, actor, { action: "webhook.ping", endpoint }, now);
    return eventIdOf(position);
  });
