import type { CommonQueryMethods } from "slonik";
import { listDeliveries, makeDeliveryDue, recoverDeliveries } from "./deliveries.sql.ts";
import type { Delivery } from "./deliveries.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { daysBefore } from "../../runtime/durations.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { eventIdOf, parseEventId } from "./events.rules.ts";
import { RECOVERY_DAYS } from "./webhooks.rules.ts";
import type { DeliveryState } from "./decideDelivery.rules.ts";
import { recordWebhookAction, requireEnabled } from "./manageWebhookEndpoints.ts";
import type { ChangeContext } from "./manageWebhookEndpoints.ts";

/** A request must end in time. Repeating it continues. */
const MAXIMUM_EVENTS = 5000;

const findDelivery = async (
  db: CommonQueryMethods,
  endpointId: string,
  eventId: string,
): Promise<Delivery | null> => {
  const position = parseEventId(eventId);
  const [found] = position
    ? await listDeliveries(db, endpointId, { id: position.id, limit: 1 })
    : [];
  return found && eventIdOf(found) === eventId ? found : null;
};

/**
 * Reads a page of an endpoint's deliveries, newest first.
 * @throws DomainError request_invalid if no delivery has the id `startingAfter`
 */
export const readDeliveries = async (
  db: CommonQueryMethods,
  endpointId: string,
  {
    state,
    startingAfter,
    limit,
  }: {
    readonly state?: DeliveryState | undefined;
    readonly startingAfter?: string | undefined;
    readonly limit: number;
  },
): Promise<{ readonly deliveries: readonly Delivery[]; readonly hasMore: boolean }> => {
  const after =
    startingAfter === undefined ? null : await findDelivery(db, endpointId, startingAfter);
  if (startingAfter !== undefined && after === null) {
    throw invalidRequest("starting_after: must be the id of a delivery");
  }
  const found = await listDeliveries(db, endpointId, { state, after, limit: limit + 1 });
  return { deliveries: found.slice(0, limit), hasMore: found.length > limit };
};

/**
 * Makes a delivery again within seconds, also one that has succeeded, and repeats it on the schedule if it fails.
 * @throws DomainError record_not_found, or request_invalid if the endpoint is disabled
 */
export const retryWebhookDelivery = (
  context: ChangeContext,
  endpoint: WebhookEndpoint,
  eventId: string,
): Promise<Delivery> => {
  requireEnabled(endpoint);
  return context.db.transaction(async (transaction) => {
    const getDelivery = async (): Promise<Delivery> => {
      const found = await findDelivery(transaction, endpoint.id, eventId);
      if (found === null) {
        throw new DomainError("record_not_found", "delivery not found");
      }
      return found;
    };
    const { id } = await getDelivery();
    await makeDeliveryDue(transaction, endpoint.id, id, context.clock.now());
    await recordWebhookAction(transaction, context, "webhook.retry", endpoint, {
      delivery: eventId,
    });
    return getDelivery();
  });
};

/**
 * Delivers the events since a time that an endpoint wants and does not have: those that were recorded while it was disabled
 * or did not exist, and those whose delivery failed or waits.
 * @returns how many, and whether there are more, which a repeated call delivers
 * @throws DomainError request_invalid if the time is too long ago or in the future, or the endpoint is disabled
 */
export const recoverWebhookEvents = async (
  context: ChangeContext,
  endpoint: WebhookEndpoint,
  since: Date,
): Promise<{ readonly recovered: number; readonly hasMore: boolean }> => {
  requireEnabled(endpoint);
  const now = context.clock.now();
  if (since > now || since < daysBefore(now, RECOVERY_DAYS)) {
    throw invalidRequest(`since: must be a time of the last ${RECOVERY_DAYS} days`);
  }
  return context.db.transaction(async (transaction) => {
    const options = { since, limit: MAXIMUM_EVENTS, now };
    const found = await recoverDeliveries(transaction, endpoint, options);
    const recovered = Math.min(found, MAXIMUM_EVENTS);
    await recordWebhookAction(transaction, context, "webhook.recover", endpoint, {
      since,
      recovered,
    });
    return { recovered, hasMore: found > MAXIMUM_EVENTS };
  });
};
