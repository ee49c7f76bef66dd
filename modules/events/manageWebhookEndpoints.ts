import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import type { AccountMode } from "../records/owner.rules.ts";
import {
  deleteEndpoint,
  enableEndpoint,
  findEndpoint,
  findEndpointByKey,
  insertEndpoint,
  listEndpoints,
  lockEndpointsOf,
  replaceSecret,
  updateEndpoint,
} from "./endpoints.sql.ts";
import type { CreatedEndpoint, EndpointSettings, WebhookEndpoint } from "./endpoints.sql.ts";
import { insertPing } from "./deliveries.sql.ts";
import { disableWebhookEndpoint } from "./disableWebhookEndpoint.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { Actor, AuditAction } from "../accounts/audit.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { MAXIMUM_ENDPOINTS, OLD_SECRET_HOURS, parseEndpointUrl } from "./webhooks.rules.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import { isAllowedHost } from "./allowedAddresses.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { newId } from "../../runtime/newId.ts";
import type { WebhookContext } from "./context.ts";
import { eventIdOf } from "./events.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { newSecret } from "./signWebhook.ts";

export const ENDPOINT_NOT_FOUND = "webhook endpoint not found";

/** Who changes an endpoint: its owner or an operator. */
type ChangeContext = OperatorContext<Actor | null>;

const requireFound = (endpoint: WebhookEndpoint | null | undefined): WebhookEndpoint => {
  if (!endpoint) {
    throw new DomainError("record_not_found", ENDPOINT_NOT_FOUND);
  }
  return endpoint;
};

/**
 * Returns an endpoint.
 * @param owner null for one of any owner, for operators
 * @throws DomainError record_not_found
 */
export const getWebhookEndpoint = async (
  db: CommonQueryMethods,
  id: string,
  owner: AccountMode | null = null,
): Promise<WebhookEndpoint> => requireFound(await findEndpoint(db, id, owner));

/** Records what an operator did to an endpoint. The path of a URL may be a secret, which the audit log would keep forever. */
export const recordWebhookAction = async (
  transaction: DatabaseTransactionConnection,
  { actor, clock }: ChangeContext,
  action: AuditAction,
  { id, accountId, mode, url }: WebhookEndpoint,
  details: Readonly<Record<string, unknown>> = {},
): Promise<void> => {
  if (actor) {
    await recordAction(transaction, actor, clock.now(), {
      action,
      accountId,
      subject: id,
      details: { mode, origin: new URL(url).origin, ...details },
    });
  }
};

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
const requireUnusedUrl = (others: readonly WebhookEndpoint[], url: string): void => {
  const other = others.find((each) => each.url === url);
  if (other) {
    throw invalidRequest(
      `url: the endpoint ${other.id} has this URL; if you have lost its secret, rotate it`,
    );
  }
};

/**
 * Creates an endpoint, and returns it with its secret. Repeated with the same key, it returns the same endpoint as it is now.
 * @throws DomainError request_invalid
 */
export const createWebhookEndpoint = (
  context: WebhookContext & ChangeContext,
  owner: AccountMode,
  {
    idempotencyKey = null,
    ...settings
  }: EndpointSettings & { readonly idempotencyKey?: string | null },
): Promise<{ readonly endpoint: CreatedEndpoint; readonly replayed: boolean }> => {
  const url = requireUsableUrl(settings.url, context.webhookSettings);
  return context.db.transaction(async (transaction) => {
    await lockEndpointsOf(transaction, owner);
    const earlier =
      idempotencyKey === null ? null : await findEndpointByKey(transaction, owner, idempotencyKey);
    if (earlier) {
      return { endpoint: earlier, replayed: true };
    }
    const endpoints = await listEndpoints(transaction, owner);
    requireUnusedUrl(endpoints, url);
    if (endpoints.length >= MAXIMUM_ENDPOINTS) {
      throw invalidRequest(
        `the maximum of ${MAXIMUM_ENDPOINTS} webhook endpoints is reached; delete one first`,
      );
    }
    const endpoint = await insertEndpoint(transaction, owner, {
      ...settings,
      id: newId(),
      url,
      secret: newSecret(),
      idempotencyKey,
      createdAt: context.clock.now(),
    });
    const { types } = settings;
    await recordWebhookAction(transaction, context, "webhook.create", endpoint, { types });
    return { endpoint, replayed: false };
  });
};

export type EndpointStatus = "enabled" | "disabled";

/** What to change; undefined leaves it as it is. */
type EndpointChanges = {
  readonly [Name in keyof EndpointSettings]?: EndpointSettings[Name] | undefined;
} & { readonly status?: EndpointStatus | undefined };

/**
 * Changes what is given, and leaves the rest. What is pending goes to the new URL, and waits while the endpoint is disabled.
 * @throws DomainError request_invalid, or record_not_found if the endpoint was deleted meanwhile
 */
export const updateWebhookEndpoint = (
  context: WebhookContext & ChangeContext,
  { id, accountId, mode }: WebhookEndpoint,
  { url: given, types, description, status }: EndpointChanges,
): Promise<WebhookEndpoint> => {
  const url = given === undefined ? undefined : requireUsableUrl(given, context.webhookSettings);
  return context.db.transaction(async (transaction) => {
    await lockEndpointsOf(transaction, { accountId, mode });
    const endpoints = await listEndpoints(transaction, { accountId, mode });
    const current = requireFound(endpoints.find((each) => each.id === id));
    if (url !== undefined) {
      requireUnusedUrl(
        endpoints.filter((each) => each.id !== id),
        url,
      );
    }
    const changed = await updateEndpoint(transaction, id, {
      url: url ?? current.url,
      types: types === undefined ? current.types : types,
      description: description ?? current.description,
    });
    const switched =
      status === "disabled"
        ? await disableWebhookEndpoint(transaction, id, {
            reason: "requested",
            url: null,
            now: context.clock.now(),
            actor: context.actor,
          })
        : status === "enabled" && (await enableEndpoint(transaction, id));
    const endpoint = switched || changed;
    await recordWebhookAction(transaction, context, "webhook.update", endpoint, {
      types: endpoint.types,
      previousOrigin: new URL(current.url).origin,
      ...(status === undefined ? {} : { status }),
    });
    return endpoint;
  });
};

/** Deletes an endpoint. Its deliveries are no longer made. */
export const deleteWebhookEndpoint = (
  context: ChangeContext,
  endpoint: WebhookEndpoint,
): Promise<void> =>
  context.db.transaction(async (transaction) => {
    await deleteEndpoint(transaction, endpoint.id);
    await recordWebhookAction(transaction, context, "webhook.delete", endpoint);
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
  context: ChangeContext,
  endpoint: WebhookEndpoint,
): Promise<string> =>
  context.db.transaction(async (transaction) => {
    requireEnabled(endpoint);
    const position = await insertPing(transaction, endpoint, newId(), context.clock.now());
    await recordWebhookAction(transaction, context, "webhook.ping", endpoint);
    return eventIdOf(position);
  });

/**
 * Replaces an endpoint's secret. The old one also signs for another day, so that receivers can change over; with
 * `revokesPrevious` it ends now. One that was replaced before no longer signs.
 * @throws DomainError record_not_found if the endpoint was deleted meanwhile
 */
export const rotateWebhookSecret = (
  context: ChangeContext,
  { id }: WebhookEndpoint,
  { revokesPrevious }: { readonly revokesPrevious: boolean },
): Promise<{ readonly secret: string; readonly previousValidUntil: Date | null }> =>
  context.db.transaction(async (transaction) => {
    const endpoint = await getWebhookEndpoint(transaction, id);
    const secret = newSecret();
    const previousValidUntil = revokesPrevious
      ? null
      : new Date(context.clock.now().getTime() + OLD_SECRET_HOURS * HOUR_MS);
    await replaceSecret(transaction, id, secret, previousValidUntil);
    await recordWebhookAction(transaction, context, "webhook.rotate", endpoint, {
      revokesPrevious,
    });
    return { secret, previousValidUntil };
  });
