import type { DatabasePool } from "slonik";
import {
  claimDeliveries,
  failPendingDeliveries,
  findNextDue,
  recordAttempt,
  releaseDelivery,
} from "../../db/webhooks/deliveries.ts";
import type { ClaimedDelivery } from "../../db/webhooks/deliveries.ts";
import {
  disableEndpoint,
  recordEndpointFailure,
  recordEndpointSuccess,
} from "../../db/webhooks/endpoints.ts";
import type { WebhookEndpoint } from "../../db/webhooks/endpoints.ts";
import { listSecrets } from "../../db/webhooks/secrets.ts";
import { SERVICE } from "../../domain/accounts/audit.ts";
import type { Clock } from "../../domain/clock.ts";
import { decideDelivery, decideDisabling } from "../../domain/webhooks/decideDelivery.ts";
import type { AttemptResult, DeliveryState } from "../../domain/webhooks/decideDelivery.ts";
import type { SendWebhook } from "../../providers/webhooks/createWebhookSender.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { signWebhook } from "./signWebhook.ts";

/** How many requests an endpoint receives at the same time. */
const MAXIMUM_IN_FLIGHT = 10;

/** No attempt begins after this time, so that an activity ends well before it times out. */
const BUDGET_MS = 20_000;

export type DeliveryDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly send: SendWebhook;
  /** Returns a number from 0 to 1, without 1. */
  readonly random: () => number;
  /** Called after each attempt. */
  readonly observeAttempt: (delivery: ClaimedDelivery, result: AttemptResult) => void;
  /** Called when an endpoint was disabled because of its responses. */
  readonly observeDisabled: (endpoint: WebhookEndpoint) => void;
};

/** Records that an attempt has failed. Disables the endpoint, once, if it is gone or has failed for days. */
const recordFailure = async (
  { db, clock, observeDisabled }: DeliveryDependencies,
  endpointId: string,
  result: AttemptResult,
  state: DeliveryState,
): Promise<void> => {
  const now = clock.now();
  const failingSince = await recordEndpointFailure(db, endpointId, now);
  const reason = decideDisabling(result, state, failingSince, now);
  if (reason === null) {
    return;
  }
  const disabled = await db.transaction(async (transaction) => {
    const endpoint = await disableEndpoint(transaction, endpointId, reason, now);
    if (endpoint) {
      await failPendingDeliveries(transaction, endpointId);
      await recordAction(
        transaction,
        SERVICE,
        {
          action: "webhook.disable",
          accountId: endpoint.accountId,
          subject: endpointId,
          details: { url: endpoint.url, reason, error: result.error },
        },
        now,
      );
    }
    return endpoint;
  });
  if (disabled) {
    observeDisabled(disabled);
  }
};

/** Makes one attempt and records it. If the worker stops meanwhile, another makes it again, with the same id. */
const deliver = async (
  deps: DeliveryDependencies,
  delivery: ClaimedDelivery,
  secrets: readonly string[],
  signal: AbortSignal,
): Promise<void> => {
  const { db, clock, send, random, observeAttempt } = deps;
  const startedAt = clock.now();
  const startedAtMs = performance.now();
  const request = { url: delivery.url, ...signWebhook(delivery, secrets, startedAt) };
  let result: AttemptResult;
  try {
    result = await send(request, signal);
  } catch (error) {
    if (!signal.aborted) {
      throw error;
    }
    await releaseDelivery(db, delivery);
    return;
  }
  const decision = decideDelivery(result, {
    attempts: delivery.attempts - delivery.earlierAttempts + 1,
    now: clock.now(),
    random: random(),
  });
  const durationMs = Math.round(performance.now() - startedAtMs);
  await recordAttempt(db, delivery, { startedAt, durationMs, result, decision });
  observeAttempt(delivery, result);
  await (result.error === null
    ? recordEndpointSuccess(db, delivery.endpointId)
    : recordFailure(deps, delivery.endpointId, result, decision.state));
};

/**
 * Makes the attempts of an endpoint that are due, ten at a time, until none is due or the time budget is spent. A delivery
 * that fails does not delay the others.
 * @returns in how many milliseconds the next attempt is due; null if none is
 */
export const deliverWebhooks = async (
  deps: DeliveryDependencies,
  endpointId: string,
  signal: AbortSignal,
): Promise<number | null> => {
  const { db, clock } = deps;
  const startedAtMs = performance.now();
  const inFlight = new Set<Promise<unknown>>();
  const failures: unknown[] = [];
  const mayStart = (): boolean =>
    !signal.aborted &&
    failures.length === 0 &&
    inFlight.size < MAXIMUM_IN_FLIGHT &&
    performance.now() - startedAtMs < BUDGET_MS;

  const startDue = async (): Promise<void> => {
    const now = clock.now();
    const claimed = await claimDeliveries(db, endpointId, {
      now,
      limit: MAXIMUM_IN_FLIGHT - inFlight.size,
    });
    // A deleted endpoint has none.
    const secrets = claimed.length === 0 ? [] : await listSecrets(db, endpointId, now);
    for (const delivery of secrets.length === 0 ? [] : claimed) {
      const attempt = deliver(deps, delivery, secrets, signal)
        .catch((error: unknown) => failures.push(error))
        .finally(() => inFlight.delete(attempt));
      inFlight.add(attempt);
    }
  };

  for (;;) {
    if (mayStart()) {
      await startDue().catch((error: unknown) => failures.push(error));
    }
    if (inFlight.size === 0) {
      break;
    }
    await Promise.race(inFlight);
  }
  if (failures.length > 0) {
    throw failures[0];
  }
  const nextDueAt = await findNextDue(db, endpointId);
  return nextDueAt && Math.max(0, nextDueAt.getTime() - clock.now().getTime());
};
