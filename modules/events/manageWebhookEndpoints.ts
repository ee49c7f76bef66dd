import type { CommonQueryMethods } from "slonik";
import { randomBytes } from "node:crypto";
import type { AccountMode } from "../records/owner.rules.ts";
import {
  findEndpoint,
  findOwnEndpoint,
  findEndpointByKey,
  insertEndpoint,
  listEndpoints,
  lockEndpointsOf,
  getCurrentSecret,
  insertSecret,
  updateEndpoint,
  markEndpointDeleted,
  deleteSecrets,
  disableEndpoint,
  enableEndpoint,
  endCurrentSecret,
  listSecrets,
} from "./endpoints.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { Actor, AuditAction } from "../accounts/audit.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import {
  formatSecret,
  MAXIMUM_ENDPOINTS,
  parseEndpointUrl,
  MAXIMUM_SECRETS,
  OLD_SECRET_HOURS,
} from "./webhooks.rules.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import { isAllowedHost } from "./allowedAddresses.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { newId } from "../../runtime/newId.ts";
import type { WebhookContext } from "./context.ts";
import { failPendingDeliveries, insertDelivery } from "./deliveries.sql.ts";
import { eventIdOf } from "./events.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";

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

/** Records what an operator did to an endpoint. The path of a URL may be a secret, which the audit log would keep forever. */
export const recordWebhookAction = async (
  transaction: CommonQueryMethods,
  actor: Actor | null,
  now: Date,
  action: AuditAction,
  { id, accountId, mode, url }: WebhookEndpoint,
  details: Readonly<Record<string, unknown>> = {},
): Promise<void> => {
  if (actor) {
    await recordAction(transaction, actor, now, {
      action,
      accountId,
      subject: id,
      details: { mode, origin: new URL(url).origin, ...details },
    });
  }
};

const SECRET_BYTES = 32;

export const newSecret = (): string => formatSecret(randomBytes(SECRET_BYTES));

/**
 * Returns the URL of an endpoint in its normal form. Only what needs no look-up is checked: a host name can change, so each
 * delivery checks the address that it calls.
 * @throws DomainError request_invalid
 */
const requireUsableUrl = (
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
const requireUnusedUrl = (
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
  owner: AccountMode,
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
      { ...owner, id: newId(), url, types, description, idempotencyKey },
      now,
    );
    const secret = newSecret();
    await insertSecret(transaction, endpoint.id, secret, now);
    await recordWebhookAction(transaction, actor, now, "webhook.create", endpoint, { types });
    return { endpoint, secret, replayed: false };
  });
};

type EndpointChanges = {
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
    const current = requireFound(endpoints.find((each) => each.id === id) ?? null);
    if (url !== undefined) {
      requireUnusedUrl(endpoints, url, id);
    }
    const endpoint = await updateEndpoint(transaction, {
      id,
      url: url ?? current.url,
      types: types === undefined ? current.types : types && [...types],
      description: description ?? current.description,
    });
    await recordWebhookAction(transaction, actor, clock.now(), "webhook.update", endpoint, {
      types: endpoint.types,
      previousOrigin: new URL(current.url).origin,
    });
    return endpoint;
  });
};

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
    await recordWebhookAction(transaction, actor, now, "webhook.delete", endpoint);
  });

/**
 * Enables or disables an endpoint. Disabling ends its pending deliveries, up to a thousand of them immediately and the others
 * within seconds or minutes. Nothing is recorded for it until it is enabled. Both can be recovered then; what has not ended
 * by then is delivered. Repeating it changes nothing.
 * @throws DomainError record_not_found if the endpoint was deleted meanwhile
 */
export const switchWebhookEndpoint = (
  { db, clock, actor }: OperatorContext<Actor | null>,
  { id }: WebhookEndpoint,
  state: "enabled" | "disabled",
): Promise<WebhookEndpoint> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const endpoint =
      state === "enabled"
        ? await enableEndpoint(transaction, id)
        : await disableEndpoint(transaction, id, "requested", now);
    if (endpoint === null) {
      return getWebhookEndpoint(transaction, id);
    }
    if (state === "disabled") {
      await failPendingDeliveries(transaction, id);
    }
    const action = state === "enabled" ? "webhook.enable" : "webhook.disable";
    await recordWebhookAction(transaction, actor, now, action, endpoint);
    return endpoint;
  });

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
    await recordWebhookAction(transaction, actor, now, "webhook.ping", endpoint);
    return eventIdOf(position);
  });

/**
 * Replaces an endpoint's secret. The old one also signs for another day, so that receivers can change over; with
 * `revokesPrevious` it ends now, together with those before it.
 * @throws DomainError request_invalid if too many secrets sign already
 */
export const rotateWebhookSecret = (
  { db, clock, actor }: OperatorContext<Actor | null>,
  { id, accountId, mode }: WebhookEndpoint,
  { revokesPrevious }: { readonly revokesPrevious: boolean },
): Promise<{ readonly secret: string; readonly previousValidUntil: Date | null }> =>
  db.transaction(async (transaction) => {
    await lockEndpointsOf(transaction, { accountId, mode });
    const endpoint = await getOwnWebhookEndpoint(transaction, { accountId, mode }, id);
    const now = clock.now();
    const until = new Date(now.getTime() + OLD_SECRET_HOURS * HOUR_MS);
    if (revokesPrevious) {
      await deleteSecrets(transaction, id);
    } else {
      if ((await listSecrets(transaction, id, now)).length >= MAXIMUM_SECRETS) {
        throw invalidRequest(
          `${MAXIMUM_SECRETS} secrets of the endpoint sign already; wait until one expires, or revoke the previous ones`,
        );
      }
      await endCurrentSecret(transaction, id, { now, until });
    }
    const secret = newSecret();
    await insertSecret(transaction, id, secret, now);
    const details = { revokesPrevious };
    await recordWebhookAction(transaction, actor, now, "webhook.rotate", endpoint, details);
    return { secret, previousValidUntil: revokesPrevious ? null : until };
  });
