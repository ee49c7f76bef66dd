import type { Delivery } from "../../../db/webhooks/deliveryLists.ts";
import type { LastError, OwnedEndpoint } from "../../../db/webhooks/endpointHealth.ts";
import type { WebhookEndpoint } from "../../../db/webhooks/endpoints.ts";
import { eventIdOf } from "../../../domain/events/events.ts";
import { formatTime } from "../../output/formatTable.ts";
import type { Cell } from "../../output/formatTable.ts";
import type { Columns } from "../../output/print.ts";

const statusOf = ({ disabledAt, disabledReason, failingSince }: WebhookEndpoint): string => {
  if (disabledAt !== null) {
    return `disabled (${disabledReason})`;
  }
  return failingSince === null ? "enabled" : "failing";
};

const typesOf = ({ types }: WebhookEndpoint): string => types?.join(", ") ?? "all";

/** The JSON form of an endpoint. */
export const presentEndpoint = (endpoint: WebhookEndpoint) => ({
  id: endpoint.id,
  account_id: endpoint.accountId,
  mode: endpoint.mode,
  url: endpoint.url,
  types: endpoint.types ?? ["*"],
  description: endpoint.description,
  created_at: endpoint.createdAt,
  failing_since: endpoint.failingSince,
  disabled_at: endpoint.disabledAt,
  disabled_reason: endpoint.disabledReason,
});

export const endpointRecord = (endpoint: WebhookEndpoint): Readonly<Record<string, Cell>> => ({
  id: endpoint.id,
  account: endpoint.accountId,
  mode: endpoint.mode,
  url: endpoint.url,
  types: typesOf(endpoint),
  description: endpoint.description,
  status: statusOf(endpoint),
  "failing since": endpoint.failingSince,
  "disabled since": endpoint.disabledAt,
  created: endpoint.createdAt,
});

/** Returns an endpoint's status, and why and since when its server fails. */
const healthOf = (endpoint: OwnedEndpoint): string => {
  const { failingSince, lastError } = endpoint;
  return failingSince === null
    ? statusOf(endpoint)
    : `${statusOf(endpoint)}: ${lastError ?? "no success"} since ${formatTime(failingSince)}`;
};

export const ENDPOINT_COLUMNS: Columns<OwnedEndpoint> = {
  "endpoint id": (endpoint) => endpoint.id,
  account: (endpoint) => endpoint.owner,
  mode: (endpoint) => endpoint.mode,
  url: (endpoint) => endpoint.url,
  types: (endpoint) => typesOf(endpoint),
  status: (endpoint) => healthOf(endpoint),
  created: (endpoint) => endpoint.createdAt,
};

/** The JSON form of how an endpoint's last failed delivery has ended. */
export const presentLastError = ({ lastError, lastErrorAt }: LastError) => ({
  last_error: lastError,
  last_error_at: lastErrorAt,
});

/** The JSON form of a delivery. */
export const presentDelivery = (delivery: Delivery) => ({
  id: eventIdOf(delivery),
  type: delivery.type,
  timestamp: delivery.occurredAt,
  state: delivery.state,
  attempt_count: delivery.attempts,
  created_at: delivery.createdAt,
  next_attempt_at: delivery.dueAt,
});

export const DELIVERY_COLUMNS: Columns<Delivery> = {
  event: (delivery) => eventIdOf(delivery),
  type: (delivery) => delivery.type,
  state: (delivery) => delivery.state,
  attempts: (delivery) => delivery.attempts,
  created: (delivery) => delivery.createdAt,
  "next attempt": (delivery) => delivery.dueAt,
};
