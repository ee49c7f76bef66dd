import { lockEndpointsOf, markEndpointDeleted, deleteSecrets } from "./endpoints.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordWebhookAction } from "./recordWebhookAction.ts";

/** Deletes an endpoint and its secrets. Its deliveries are no longer made, and are deleted at night. */
export const deleteWebhookEndpoint = (
  { db, clock, actor }: OperatorContext<Actor | null>,
  endpoint: WebhookEndpoint,
): Promise<void> =>
  db.transaction(async (transaction) => {
    // A concurrent rotation would leave its new secret.
    await lockEndpointsOf(transaction, endpoint);
    const now = clock.now();
    await deleteSecrets(transaction, endpoint.id);
    await markEndpointDeleted(transaction, endpoint.id, now);
    await recordWebhookAction(transaction, actor, { action: "webhook.delete", endpoint }, now);
  });
