import type { AccountMode } from "../records/owner.rules.ts";
import type { CommonQueryMethods } from "slonik";
import { findEndpoint, findOwnEndpoint } from "./endpoints.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";

export const ENDPOINT_NOT_FOUND = "webhook endpoint not found";

const requireFound = (endpoint: WebhookEndpoint | null): WebhookEndpoint => {
  if (endpoint === null) {
    throw new DomainError("record_not_found", ENDPOINT_NOT_FOUND);
  }
  return endpoint;
};

/**
 * Returns an endpoint of an owner.
 * @throws DomainError record_not_found
 */
export const getOwnWebhookEndpoint = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  id: string,
): Promise<WebhookEndpoint> => requireFound(await findOwnEndpoint(db, owner, id));

/**
 * Returns an endpoint of any owner, for operators.
 * @throws DomainError record_not_found
 */
export const getWebhookEndpoint = async (
  db: CommonQueryMethods,
  id: string,
): Promise<WebhookEndpoint> => requireFound(await findEndpoint(db, id));
