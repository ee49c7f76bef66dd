import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import type { AccountMode } from "../records/owner.rules.ts";
import {
  deleteEndpoint,
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  lockEndpointsOf,
  updateEndpoints,
} from "./endpoints.sql.ts";
import type { EndpointChanges, EndpointSettings, WebhookEndpoint } from "./endpoints.sql.ts";
import { insertPing } from "./deliveries.sql.ts";
import { invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import type { Actor, AuditAction } from "../accounts/audit.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { MAXIMUM_ENDPOINTS, OLD_SECRET_HOURS, requireTypesOf } from "./webhooks.rules.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import { requireUsableUrl } from "./allowedAddresses.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { newId } from "../../runtime/newId.ts";
import type { Context } from "../../runtime/context.ts";
import { eventIdOf } from "./events.rules.ts";
import type { DisabledReason } from "./events.rules.ts";
import { recordEvent } from "./recordEvent.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { newSecret } from "./signWebhook.ts";

export type WebhookContext = Context & {
  /** Where deliveries to webhook endpoints may be sent. */
  readonly webhookSettings: WebhookSettings;
};

/** Who changes an endpoint: its owner or an operator. */
export type ChangeContext = OperatorContext<Actor | null>;

/**
 * @param owner null for one of any owner, for operators
 * @throws DomainError record_not_found
 */
export const getWebhookEndpoint = async (
  db: CommonQueryMethods,
  id: string,
  owner: AccountMode | null = null,
): Promise<WebhookEndpoint> =>
  requireFound(await findEndpoint(db, id, owner), "webhook endpoint not found");

/** @throws DomainError request_invalid */
export const requireEnabled = ({ disabledAt }: WebhookEndpoint): void => {
  if (disabledAt !== null) {
    throw invalidRequest("the webhook endpoint is disabled; enable it first");
  }
};

const originOf = ({ url }: Pick<WebhookEndpoint, "url">): string => new URL(url).origin;

/** Records what an operator did to an endpoint. The path of a URL may be a secret, which the audit log would keep forever. */
export const recordWebhookAction = async (
  transaction: DatabaseTransactionConnection,
  { actor, clock }: Pick<ChangeContext, "actor" | "clock">,
  action: AuditAction,
  endpoint: WebhookEndpoint,
  details: Readonly<Record<string, unknown>> = {},
): Promise<void> => {
  if (actor) {
    const { id, accountId, mode } = endpoint;
    await recordAction(transaction, actor, clock.now(), {
      action,
      accountId,
      subject: id,
      details: { mode, origin: originOf(endpoint), ...details },
    });
  }
};

/**
 * Creates an endpoint, and returns it with its secret. Repeated with the same key, it returns the same endpoint as it is now.
 * @throws DomainError request_invalid
 */
export const createWebhookEndpoint = (
  { db, clock, actor, webhookSettings }: WebhookContext & ChangeContext,
  owner: AccountMode,
  {
    idempotencyKey = null,
    ...settings
  }: EndpointSettings & { readonly idempotencyKey?: string | null },
): Promise<{ readonly endpoint: WebhookEndpoint; readonly replayed: boolean }> =>
  db.transaction(async (transaction) => {
    await lockEndpointsOf(transaction, owner);
    const others = await listEndpoints(transaction, owner);
    const earlier =
      idempotencyKey !== null && others.find((each) => each.idempotencyKey === idempotencyKey);
    if (earlier) {
      return { endpoint: earlier, replayed: true };
    }
    const url = requireUsableUrl(settings.url, webhookSettings);
    if (others.length >= MAXIMUM_ENDPOINTS) {
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
      createdAt: clock.now(),
    });
    const { types } = settings;
    requireTypesOf(endpoint.accountType, types);
    await recordWebhookAction(transaction, { actor, clock }, "webhook.create", endpoint, { types });
    return { endpoint, replayed: false };
  });

/**
 * Disables an endpoint that is not disabled. What is pending waits until it is enabled, and nothing is recorded for it until
 * then. Its owner learns of it by an event, in the feed and at other endpoints, except if the owner disables it.
 * @returns undefined if it was disabled or deleted already
 */
export const disableWebhookEndpoint = async (
  transaction: DatabaseTransactionConnection,
  context: Pick<ChangeContext, "actor" | "clock">,
  id: string,
  reason: DisabledReason,
): Promise<WebhookEndpoint | undefined> => {
  const now = context.clock.now();
  const disabled = { disabledAt: now, disabledReason: reason };
  const [endpoint] = await updateEndpoints(transaction, { id, areEnabled: true }, disabled);
  if (endpoint && context.actor) {
    const { lastError } = endpoint;
    await recordEvent(transaction, endpoint, now, {
      type: "webhook_endpoint.disabled",
      data: {
        endpoint_id: id,
        url_origin: originOf(endpoint),
        disabled_reason: reason,
        last_error: lastError,
      },
    });
    const details = { reason, error: lastError };
    await recordWebhookAction(transaction, context, "webhook.disable", endpoint, details);
  }
  return endpoint;
};

/**
 * Changes what is given, and leaves the rest. What is pending goes to the new URL, and waits while the endpoint is disabled.
 * @throws DomainError request_invalid, or record_not_found if the endpoint was deleted meanwhile
 */
export const updateWebhookEndpoint = (
  context: WebhookContext & ChangeContext,
  { id, accountId, mode }: WebhookEndpoint,
  {
    status,
    ...changes
  }: EndpointChanges & { readonly status?: "enabled" | "disabled" | undefined },
): Promise<WebhookEndpoint> =>
  context.db.transaction(async (transaction) => {
    await lockEndpointsOf(transaction, { accountId, mode });
    const before = await getWebhookEndpoint(transaction, id);
    requireTypesOf(before.accountType, changes.types ?? null);
    const url =
      changes.url === undefined
        ? before.url
        : requireUsableUrl(changes.url, context.webhookSettings);
    const isEnabled = status === "enabled" && before.disabledAt !== null;
    // What its server did at an earlier URL, or before it was enabled, says nothing about later.
    await updateEndpoints(
      transaction,
      { id },
      {
        ...changes,
        url,
        ...(isEnabled && { disabledAt: null, disabledReason: null }),
        ...((isEnabled || url !== before.url) && { failingSince: null, lastError: null }),
      },
    );
    if (status === "disabled") {
      await disableWebhookEndpoint(transaction, context, id, "requested");
    }
    const endpoint = await getWebhookEndpoint(transaction, id);
    await recordWebhookAction(transaction, context, "webhook.update", endpoint, {
      types: endpoint.types,
      previousOrigin: originOf(before),
      ...(status === undefined ? {} : { status }),
    });
    return endpoint;
  });

export const deleteWebhookEndpoint = (context: ChangeContext, endpoint: WebhookEndpoint) =>
  context.db.transaction(async (transaction) => {
    await deleteEndpoint(transaction, endpoint.id);
    await recordWebhookAction(transaction, context, "webhook.delete", endpoint);
  });

/**
 * Sends an endpoint a `ping`, whatever types it has chosen.
 * @returns the id of the delivery
 * @throws DomainError request_invalid if the endpoint is disabled
 */
export const pingWebhookEndpoint = (context: ChangeContext, endpoint: WebhookEndpoint) =>
  context.db.transaction(async (transaction) => {
    requireEnabled(endpoint);
    const position = await insertPing(transaction, endpoint, newId(), context.clock.now());
    await recordWebhookAction(transaction, context, "webhook.ping", endpoint);
    return eventIdOf(position);
  });

/**
 * Replaces an endpoint's secret. The old one also signs for another day, so that receivers can change over. One that was
 * replaced before no longer signs.
 * @throws DomainError record_not_found if the endpoint was deleted meanwhile
 */
export const rotateWebhookSecret = (
  context: ChangeContext,
  { id, accountId, mode }: WebhookEndpoint,
): Promise<{ readonly secret: string; readonly previousValidUntil: Date }> =>
  context.db.transaction(async (transaction) => {
    await lockEndpointsOf(transaction, { accountId, mode });
    const endpoint = await getWebhookEndpoint(transaction, id);
    const secret = newSecret();
    const previousValidUntil = new Date(context.clock.now().getTime() + OLD_SECRET_HOURS * HOUR_MS);
    const previous = { previousSecret: endpoint.secret, previousSecretUntil: previousValidUntil };
    await updateEndpoints(transaction, { id }, { secret, ...previous });
    await recordWebhookAction(transaction, context, "webhook.rotate", endpoint);
    return { secret, previousValidUntil };
  });
