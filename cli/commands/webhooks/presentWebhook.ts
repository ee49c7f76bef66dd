import type { Delivery } from "../../../db/webhooks/deliveryLists.ts";
import type { WebhookEndpoint } from "../../../db/webhooks/endpoints.ts";
import { eventIdOf } from "../../../domain/events/events.ts";
import type { Cell } from "../../output/formatTable.ts";

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

export const ENDPOINT_HEADINGS = ["endpoint id", "mode", "url", "types", "status", "created"];

export const endpointRows = (endpoints: readonly WebhookEndpoint[]): readonly (readonly Cell[])[] =>
  endpoints.map((endpoint) => [
    endpoint.id,
    endpoint.mode,
    endpoint.url,
    typesOf(endpoint),
    statusOf(endpoint),
    endpoint.createdAt,
  ]);

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

export const DELIVERY_HEADINGS = ["event", "type", "state", "attempts", "created", "next attempt"];

export const deliveryRows = (deliveries: readonly Delivery[]): readonly (readonly Cell[])[] =>
  deliveries.map((delivery) => [
    eventIdOf(delivery),
    delivery.type,
    delivery.state,
    delivery.attempts,
    delivery.createdAt,
    delivery.dueAt,
  ]);
