import { isContentError } from "../../db/databaseErrors.ts";
import { failPendingDeliveries } from "./deliveries.sql.ts";
import { releaseDelivery } from "./attempts.sql.ts";
import type { ClaimedDelivery, EndedAttempt } from "./attempts.sql.ts";
import { disableEndpoint, findEndpoint } from "./endpoints.sql.ts";
import { SERVICE } from "../accounts/audit.rules.ts";
import { decideDelivery, decideDisabling } from "./decideDelivery.rules.ts";
import type { AttemptResult } from "./decideDelivery.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { pause } from "../../runtime/waiting.ts";
import { signWebhook } from "./signWebhook.ts";
import type { DeliveryContext } from "./context.ts";

/**
 * Disables the endpoint of a delivery that has failed, once, if it is gone or has failed for days. An endpoint whose URL was
 * changed meanwhile stays enabled.
 */
const disableIfDead = async (
  { db, clock, observeDisabled }: DeliveryContext,
  { delivery: { endpointId, url }, result, decision }: EndedAttempt,
): Promise<void> => {
  const now = clock.now();
  const failingSince = (await findEndpoint(db, endpointId))?.failingSince ?? now;
  const reason = decideDisabling(result, decision.state, failingSince, now);
  if (reason === null) {
    return;
  }
  const disabled = await db.transaction(async (transaction) => {
    const endpoint = await disableEndpoint(transaction, endpointId, reason, now, { url });
    if (endpoint) {
      await failPendingDeliveries(transaction, endpointId);
      await recordAction(transaction, SERVICE, now, {
        action: "webhook.disable",
        accountId: endpoint.accountId,
        subject: endpointId,
        details: { origin: new URL(url).origin, reason, error: result.error },
      });
    }
    return endpoint;
  });
  if (disabled) {
    observeDisabled(disabled);
  }
};

/** How soon recording is tried again after an error of the database. */
const RECORD_AGAIN_MS = 1000;

/** Records an attempt. An error of the database is no reason to send the delivery again, as long as its lease lasts. */
const recordInLease = async (
  { clock }: Pick<DeliveryContext, "clock">,
  record: (attempt: EndedAttempt) => Promise<void>,
  attempt: EndedAttempt,
  signal: AbortSignal,
): Promise<void> => {
  const leasedUntilMs = attempt.delivery.leasedUntil.getTime();
  for (;;) {
    try {
      await record(attempt);
      return;
    } catch (error) {
      const isLeaseLasting = clock.now().getTime() + RECORD_AGAIN_MS < leasedUntilMs;
      if (isContentError(error) || !isLeaseLasting || signal.aborted) {
        throw error;
      }
    }
    await pause(RECORD_AGAIN_MS, signal);
  }
};

/**
 * Makes one attempt and records it. If the worker stops meanwhile, another makes it again, with the same id.
 * @param onEnd called with the result when the receiver has responded, or will not; without it if the request was interrupted
 */
export const makeAttempt = async (
  context: DeliveryContext,
  delivery: ClaimedDelivery,
  {
    record,
    onEnd,
    signal,
  }: {
    readonly record: (attempt: EndedAttempt) => Promise<void>;
    readonly onEnd: (result?: AttemptResult) => void;
    readonly signal: AbortSignal;
  },
): Promise<void> => {
  const { db, clock, send, random, observeAttempt } = context;
  const startedAt = clock.now();
  const startedAtMs = performance.now();
  const request = { url: delivery.url, ...signWebhook(delivery, delivery.secrets, startedAt) };
  let result: AttemptResult;
  try {
    result = await send(request, signal);
  } catch (error) {
    onEnd();
    if (!signal.aborted) {
      throw error;
    }
    await releaseDelivery(db, delivery);
    return;
  }
  onEnd(result);
  const endedAt = clock.now();
  const decision = decideDelivery(result, {
    attempts: delivery.attempts - delivery.earlierAttempts + 1,
    now: endedAt,
    random: random(),
  });
  const durationMs = Math.round(performance.now() - startedAtMs);
  const attempt = { delivery, startedAt, endedAt, durationMs, result, decision };
  await recordInLease(context, record, attempt, signal);
  observeAttempt(delivery, result);
  if (decision.state === "failed") {
    await disableIfDead(context, attempt);
  }
};
