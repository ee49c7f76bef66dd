import { randomBytes } from "node:crypto";
import {
  findEndpointByKey,
  insertEndpoint,
  listEndpoints,
  lockEndpointsOf,
  getCurrentSecret,
  insertSecret,
} from "./endpoints.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { formatSecret, MAXIMUM_ENDPOINTS, parseEndpointUrl } from "./webhooks.rules.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import { isAllowedHost } from "./allowedAddresses.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordWebhookAction } from "./recordWebhookAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { WebhookContext } from "./context.ts";

const SECRET_BYTES = 32;

export const newSecret = (): string => formatSecret(randomBytes(SECRET_BYTES));

/**
 * Returns the URL of an endpoint in its normal form. Only what needs no look-up is checked: a host name can change, so each
 * delivery checks the address that it calls.
 * @throws DomainError request_invalid
 */
export const requireUsableUrl = (
  given: string,
  { allowsHttp, allowedNetworks }: WebhookSettings,
): string => {
  const url = parseEndpointUrl(given, { allowsHttp });
  if (!isAllowedHost(new URL(url).hostname, allowedNetworks)) {
    throw invalidRequest(
      "url: the host must have a public address; to receive events on your own machine, use `impact webhook listen`",
    );
  }
  return url;
};

/** @throws DomainError request_invalid if another endpoint of the owner has the URL */
export const requireUnusedUrl = (
  endpoints: readonly WebhookEndpoint[],
  url: string,
  own: string | null,
): void => {
  const other = endpoints.find((each) => each.url === url && each.id !== own);
  if (other) {
    throw invalidRequest(
      `url: the endpoint ${other.id} has this URL; if you have lost its secret, rotate it`,
    );
  }
};

/**
 * Creates an endpoint, and returns its secret. Repeated with the same key, it returns the same endpoint as it is now.
 * @param types null for all
 * @throws DomainError request_invalid
 */
export const createWebhookEndpoint = (
  { db, clock, actor, webhookSettings }: WebhookContext & OperatorContext<Actor | null>,
  { accountId, mode }: AccountMode,
  {
    url: given,
    types,
    description,
    idempotencyKey = null,
  }: Pick<WebhookEndpoint, "url" | "types" | "description"> & {
    readonly idempotencyKey?: string | null;
  },
): Promise<{
  readonly endpoint: WebhookEndpoint;
  readonly secret: string;
  readonly replayed: boolean;
}> => {
  const url = requireUsableUrl(given, webhookSettings);
  return db.transaction(async (transaction) => {
    const owner = { accountId, mode };
    await lockEndpointsOf(transaction, owner);
    const earlier =
      idempotencyKey === null ? null : await findEndpointByKey(transaction, owner, idempotencyKey);
    if (earlier) {
      const secret = await getCurrentSecret(transaction, earlier.id);
      return { endpoint: earlier, secret, replayed: true };
    }
    const endpoints = await listEndpoints(transaction, owner);
    requireUnusedUrl(endpoints, url, null);
    if (endpoints.length >= MAXIMUM_ENDPOINTS) {
      throw invalidRequest(
        `the maximum of ${MAXIMUM_ENDPOINTS} webhook endpoints is reached; delete one first`,
      );
    }
    const now = clock.now();
    const endpoint = await insertEndpoint(
      transaction,
      { id: newId(), ...owner, url, types, description, idempotencyKey },
      now,
    );
    const secret = newSecret();
    await insertSecret(transaction, endpoint.id, secret, now);
    await recordWebhookAction(
      transaction,
      actor,
      { action: "webhook.create", endpoint, details: { types } },
      now,
    );
    return { endpoint, secret, replayed: false };
  });
};
