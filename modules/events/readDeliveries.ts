import type { CommonQueryMethods } from "slonik";
import { findDelivery, listAttempts, listDeliveries } from "./deliveries.sql.ts";
import type { Delivery, DeliveryAttempt } from "./deliveries.sql.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { eventIdOf, parseEventId } from "./events.rules.ts";
import type { DeliveryState } from "./decideDelivery.rules.ts";

const find = async (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
): Promise<Delivery | null> => {
  const position = parseEventId(id);
  const found = position && (await findDelivery(db, endpointId, position.id));
  return found && eventIdOf(found) === id ? found : null;
};

/**
 * Returns a delivery by the event's id.
 * @throws DomainError record_not_found
 */
export const getDelivery = async (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
): Promise<Delivery> => {
  const delivery = await find(db, endpointId, id);
  if (delivery === null) {
    throw new DomainError("record_not_found", "delivery not found");
  }
  return delivery;
};

/** @throws DomainError record_not_found */
export const readDelivery = async (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
): Promise<{
  readonly delivery: Delivery;
  readonly attempts: readonly DeliveryAttempt[];
}> => {
  const delivery = await getDelivery(db, endpointId, id);
  return { delivery, attempts: await listAttempts(db, endpointId, delivery.id) };
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
    readonly state: DeliveryState | null;
    readonly startingAfter: string | null;
    readonly limit: number;
  },
): Promise<{ readonly deliveries: readonly Delivery[]; readonly hasMore: boolean }> => {
  const after = startingAfter === null ? null : await find(db, endpointId, startingAfter);
  if (startingAfter !== null && after === null) {
    throw invalidRequest("starting_after: must be the id of a delivery");
  }
  const found = await listDeliveries(db, endpointId, { state, after, limit: limit + 1 });
  return { deliveries: found.slice(0, limit), hasMore: found.length > limit };
};
