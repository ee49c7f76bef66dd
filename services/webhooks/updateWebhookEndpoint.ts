import { listEndpoints, lockEndpointsOf, updateEndpoint } from "../../db/webhooks/endpoints.ts";
import type { WebhookEndpoint } from "../../db/webhooks/endpoints.ts";
import { DomainError } from "../../domain/errors.ts";
import type { WebhookSettings } from "../../domain/webhooks/webhookEndpoints.ts";
import { requireUnusedUrl, requireUsableUrl } from "./createWebhookEndpoint.ts";
import { ENDPOINT_NOT_FOUND } from "./getWebhookEndpoint.ts";
import { recordWebhookAction } from "./webhookDependencies.ts";
import type { WebhookDependencies } from "./webhookDependencies.ts";

export type EndpointChanges = {
  readonly url?: string | undefined;
  /** Null for all. */
  readonly types?: readonly string[] | null | undefined;
  readonly description?: string | undefined;
};

/**
 * Changes what is given, and leaves the rest. Pending deliveries go to the new URL.
 * @throws DomainError request_invalid, or record_not_found if the endpoint was deleted meanwhile
 */
export const updateWebhookEndpoint = (
  { db, clock, actor, settings }: WebhookDependencies & { readonly settings: WebhookSettings },
  { id, accountId, mode }: WebhookEndpoint,
  { url: given, types, description }: EndpointChanges,
): Promise<WebhookEndpoint> => {
  const url = given === undefined ? undefined : requireUsableUrl(given, settings);
  return db.transaction(async (transaction) => {
    await lockEndpointsOf(transaction, { accountId, mode });
    const endpoints = await listEndpoints(transaction, { accountId, mode });
    const current = endpoints.find((each) => each.id === id);
    if (!current) {
      throw new DomainError("record_not_found", ENDPOINT_NOT_FOUND);
    }
    if (url !== undefined) {
      requireUnusedUrl(endpoints, url, id);
    }
    const endpoint = await updateEndpoint(transaction, {
      id,
      url: url ?? current.url,
      types: types === undefined ? current.types : types && [...types],
      description: description ?? current.description,
    });
    await recordWebhookAction(
      transaction,
      actor,
      {
        action: "webhook.update",
        endpoint,
        details: { types: endpoint.types, previousOrigin: new URL(current.url).origin },
      },
      clock.now(),
    );
    return endpoint;
  });
};
