import type { WebhookEndpoint } from "../../db/webhooks/endpoints.ts";
import { insertMissedDeliveries } from "../../db/webhooks/recovery.ts";
import { DomainError } from "../../domain/errors.ts";
import { RECOVERY_DAYS } from "../../domain/webhooks/webhookEndpoints.ts";
import { requireEnabled } from "./pingWebhookEndpoint.ts";
import { recordWebhookAction } from "./webhookDependencies.ts";
import type { WebhookDependencies } from "./webhookDependencies.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** A request must end in time. Repeating it continues. */
const MAXIMUM_EVENTS = 5000;

/**
 * Delivers the events since a time that an endpoint wants and does not have: those that were recorded while it was disabled
 * or did not exist, and those whose delivery failed.
 * @returns how many, and whether there are more, which a repeated call delivers
 * @throws DomainError request_invalid if the time is too long ago or in the future, or the endpoint is disabled
 */
export const recoverWebhookEvents = (
  { db, clock, actor }: WebhookDependencies,
  endpoint: WebhookEndpoint,
  since: Date,
): Promise<{ readonly recovered: number; readonly hasMore: boolean }> => {
  requireEnabled(endpoint);
  const now = clock.now();
  if (since > now || since.getTime() < now.getTime() - RECOVERY_DAYS * DAY_MS) {
    throw new DomainError(
      "request_invalid",
      `since: must be a time of the last ${RECOVERY_DAYS} days`,
    );
  }
  return db.transaction(async (transaction) => {
    const found = await insertMissedDeliveries(transaction, endpoint, since, MAXIMUM_EVENTS, now);
    const recovered = Math.min(found, MAXIMUM_EVENTS);
    await recordWebhookAction(
      transaction,
      actor,
      { action: "webhook.recover", endpoint, details: { since, recovered } },
      now,
    );
    return { recovered, hasMore: found > recovered };
  });
};
