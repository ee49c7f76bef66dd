import { recoverDeliveries } from "./deliveries.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { daysBefore } from "../../runtime/durations.rules.ts";
import { DomainError, invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import { parseEventId } from "./events.rules.ts";
import { RECOVERY_DAYS } from "./webhooks.rules.ts";
import { recordWebhookAction, requireEnabled } from "./manageWebhookEndpoints.ts";
import type { ChangeContext } from "./manageWebhookEndpoints.ts";

/** A request must end in time. Repeating it continues. */
const MAXIMUM_EVENTS = 5000;

const NOT_FOUND = "event not found";

/**
 * Sends events again within seconds, and repeats each on the schedule if it fails: one event, also if it was delivered, or the
 * events since a time that the endpoint wants and does not have. Those were recorded while it was disabled or did not exist, or
 * their delivery failed or waits.
 * @param chosen.eventId the id of the event, as clients know it
 * @returns how many, and whether there are more, which a repeated call delivers
 * @throws DomainError record_not_found if its owner has no such event, or request_invalid if the time is too long ago or in
 *   the future, or the endpoint is disabled
 */
export const recoverWebhookEvents = async (
  context: ChangeContext,
  endpoint: WebhookEndpoint,
  { eventId, since }: { readonly eventId?: string | undefined; readonly since?: Date | undefined },
): Promise<{ readonly recovered: number; readonly hasMore: boolean }> => {
  requireEnabled(endpoint);
  const now = context.clock.now();
  const event = eventId === undefined ? undefined : requireFound(parseEventId(eventId), NOT_FOUND);
  const oldest = daysBefore(now, RECOVERY_DAYS);
  if (!event && !(since && since >= oldest && since <= now)) {
    throw invalidRequest(`since: must be a time of the last ${RECOVERY_DAYS} days`);
  }
  return context.db.transaction(async (transaction) => {
    const chosen = { event, since: since ?? oldest, limit: MAXIMUM_EVENTS, now };
    const found = await recoverDeliveries(transaction, endpoint, chosen);
    if (found === 0 && event) {
      throw new DomainError("record_not_found", NOT_FOUND);
    }
    const recovered = Math.min(found, MAXIMUM_EVENTS);
    const details = { ...(event ? { eventId } : { since }), recovered };
    await recordWebhookAction(transaction, context, "webhook.recover", endpoint, details);
    return { recovered, hasMore: found > MAXIMUM_EVENTS };
  });
};
