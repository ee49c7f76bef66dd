import type { Delivery } from "./deliveries.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { eventIdOf } from "./events.rules.ts";
import { ALL_TYPES } from "./webhooks.rules.ts";

/** Returns the types as they are stored: each once, and null for all. */
export const storedTypes = (given: readonly string[]): string[] | null =>
  given.includes(ALL_TYPES) ? null : [...new Set(given)];

/** Returns an endpoint as clients and operators see it. */
export const presentEndpoint = (endpoint: WebhookEndpoint) => ({
  id: endpoint.id,
  url: endpoint.url,
  types: [...(endpoint.types ?? [ALL_TYPES])],
  description: endpoint.description,
  status: endpoint.disabledAt === null ? ("enabled" as const) : ("disabled" as const),
  disabled_reason: endpoint.disabledReason,
  disabled_at: endpoint.disabledAt?.toISOString() ?? null,
  failing_since: endpoint.failingSince?.toISOString() ?? null,
  last_error: endpoint.lastError,
  created_at: endpoint.createdAt.toISOString(),
});

export const presentDelivery = (delivery: Delivery) => ({
  id: eventIdOf(delivery),
  type: delivery.type,
  timestamp: delivery.occurredAt.toISOString(),
  state: delivery.state,
  attempt_count: delivery.attempts,
  last_attempt: delivery.lastAttempt,
  created_at: delivery.createdAt.toISOString(),
  next_attempt_at: delivery.dueAt?.toISOString() ?? null,
});
