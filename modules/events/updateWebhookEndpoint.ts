import { listEndpoints, lockEndpointsOf, updateEndpoint } from "./endpoints.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { requireUnusedUrl, requireUsableUrl } from "./createWebhookEndpoint.ts";
import { ENDPOINT_NOT_FOUND } from "./getWebhookEndpoint.ts";
import { recordWebhookAction } from "./recordWebhookAction.ts";
import type { WebhookContext } from "./context.ts";

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
  { db, clock, actor, webhookSettings }: WebhookContext & OperatorContext<Actor | null>,
  { id, accountId, mode }: WebhookEndpoint,
  { url: given, types, description }: EndpointChanges,
): Promise<WebhookEndpoint> => {
  const url = given === undefined ? undefined : requireUsableUrl(given, webhookSettings);
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
