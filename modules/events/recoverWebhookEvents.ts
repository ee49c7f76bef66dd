import { findRecentEventBoundary } from "./events.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { insertMissedDeliveries, makeDeliveryDue } from "./recovery.sql.ts";
import { DAY_MS, HOUR_MS } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { startOfTransaction } from "./events.rules.ts";
import type { FeedPosition } from "./events.rules.ts";
import { RECOVERY_DAYS } from "./webhooks.rules.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { requireEnabled, recordWebhookAction } from "./manageWebhookEndpoints.ts";
import type { Delivery } from "./deliveries.sql.ts";
import { getDelivery } from "./readDeliveries.ts";

/** A request must end in time. Repeating it continues. */
const MAXIMUM_EVENTS = 5000;

/** The clocks of two machines differ by less. */
const CLOCK_DIFFERENCE_MS = HOUR_MS;

/** Where recoveries that have more events continue, so that a repeated call does not read the earlier ones again. */
export type RecoveryPositions = {
  readonly get: (key: string) => FeedPosition | undefined;
  readonly set: (key: string, position: FeedPosition) => unknown;
  readonly delete: (key: string) => unknown;
};

type Recovery = { readonly recovered: number; readonly hasMore: boolean };

const recover = async (
  { db, clock, actor }: OperatorContext<Actor | null>,
  endpoint: WebhookEndpoint,
  since: Date,
  positions: RecoveryPositions,
): Promise<Recovery> => {
  const key = `${endpoint.id} ${since.toISOString()}`;
  const position = positions.get(key);
  const { recovered, hasMore, last } = await db.transaction(async (transaction) => {
    const now = clock.now();
    const boundary = await findRecentEventBoundary(
      transaction,
      new Date(since.getTime() - CLOCK_DIFFERENCE_MS),
    );
    const start = startOfTransaction(boundary);
    let result: Recovery & { readonly last: FeedPosition | null } = {
      recovered: 0,
      hasMore: false,
      last: null,
    };
    // In the end from the start, because events before the position may have failed or been committed meanwhile.
    for (const after of position === undefined ? [start] : [position, start]) {
      if (!result.hasMore) {
        const limit = MAXIMUM_EVENTS - result.recovered;
        const missed = await insertMissedDeliveries(transaction, endpoint, {
          since,
          after,
          limit,
          now,
        });
        result = {
          recovered: result.recovered + Math.min(missed.found, limit),
          hasMore: missed.found > limit,
          last: missed.last,
        };
      }
    }
    const details = { since, recovered: result.recovered };
    await recordWebhookAction(transaction, actor, now, "webhook.recover", endpoint, details);
    return result;
  });
  if (hasMore && last !== null) {
    positions.set(key, last);
  } else {
    positions.delete(key);
  }
  return { recovered, hasMore };
};

/**
 * Delivers the events since a time that an endpoint wants and does not have: those that were recorded while it was disabled
 * or did not exist, and those whose delivery failed.
 * @param positions where an earlier call has ended
 * @returns how many, and whether there are more, which a repeated call delivers
 * @throws DomainError request_invalid if the time is too long ago or in the future, or the endpoint is disabled
 */
export const recoverWebhookEvents = (
  context: OperatorContext<Actor | null>,
  endpoint: WebhookEndpoint,
  since: Date,
  positions: RecoveryPositions = new Map(),
): Promise<Recovery> => {
  requireEnabled(endpoint);
  const now = context.clock.now();
  if (since > now || since.getTime() < now.getTime() - RECOVERY_DAYS * DAY_MS) {
    throw invalidRequest(`since: must be a time of the last ${RECOVERY_DAYS} days`);
  }
  return recover(context, endpoint, since, positions);
};

/**
 * Makes a delivery again within seconds, also one that has succeeded, and repeats it on the schedule if it fails.
 * @throws DomainError record_not_found, or request_invalid if the endpoint is disabled
 */
export const retryWebhookDelivery = (
  { db, clock, actor }: OperatorContext<Actor | null>,
  endpoint: WebhookEndpoint,
  id: string,
): Promise<Delivery> => {
  requireEnabled(endpoint);
  return db.transaction(async (transaction) => {
    const now = clock.now();
    const delivery = await getDelivery(transaction, endpoint.id, id);
    await makeDeliveryDue(transaction, endpoint.id, delivery.id, now);
    const details = { delivery: id };
    await recordWebhookAction(transaction, actor, now, "webhook.retry", endpoint, details);
    return getDelivery(transaction, endpoint.id, id);
  });
};
