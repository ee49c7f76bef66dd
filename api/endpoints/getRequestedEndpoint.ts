import type { CommonQueryMethods } from "slonik";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import type { WebhookEndpoint } from "../../modules/events/endpoints.sql.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import { getOwnWebhookEndpoint } from "../../modules/events/manageWebhookEndpoints.ts";
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
