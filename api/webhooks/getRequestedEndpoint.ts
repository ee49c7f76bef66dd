import type { CommonQueryMethods } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import type { WebhookEndpoint } from "../../db/webhooks/endpoints.ts";
import { accountModeOf } from "../../domain/accounts/accounts.ts";
import { getOwnWebhookEndpoint } from "../../services/webhooks/getWebhookEndpoint.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { RequestContext } from "../http/requestContext.ts";

/**
 * Returns the caller's endpoint that the path names.
 * @throws DomainError record_not_found
 */
export const getRequestedEndpoint = (
  db: CommonQueryMethods,
  ctx: RequestContext,
  caller: Caller,
): Promise<WebhookEndpoint> =>
  getOwnWebhookEndpoint(db, accountModeOf(caller), pathParameter(ctx, "id"));
