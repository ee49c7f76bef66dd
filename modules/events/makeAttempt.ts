import { isContentError } from "../../db/databaseErrors.ts";
import type { CommonQueryMethods } from "slonik";
import { joinCalls } from "../../db/batching/joinCalls.ts";
import { recordAttempts, releaseDelivery } from "./attempts.sql.ts";
import type { EndedAttempt, ClaimedDelivery } from "./attempts.sql.ts";
import { recordEndpointResults, disableEndpoint, findEndpoint } from "./endpoints.sql.ts";
import type { EndpointResult } from "./endpoints.sql.ts";
import { failPendingDeliveries } from "./deliveries.sql.ts";
import { SERVICE } from "../accounts/audit.rules.ts";
import { decideDelivery, decideDisabling } from "./decideDelivery.rules.ts";
import type { AttemptResult } from "./decideDelivery.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { pause } from "../../runtime/waiting.ts";
import { signWebhook } from "./signWebhook.ts";
import type { DeliveryContext } from "./context.ts";

/** Returns what attempts, in the order in which they ended, say about the endpoints at each of their URLs. */
const resultsOf = (attempts: readonly EndedAttempt[]): readonly EndpointResult[] => {
  const results = new Map<string, EndpointResult>();
  for (const { delivery, endedAt, result } of attempts) {
    const { endpointId, url } = delivery;
    const key = `${endpointId}/${url}`;
    const earlier = results.get(key) ?? { endpointId, url, hasSucceeded: false, failedAt: null };
    results.set(
      key,
      result.error === null
        ? { endpointId, url, hasSucceeded: true, failedAt: null }
        : { ...earlier, failedAt: earlier.failedAt ?? endedAt },
    );
  }
  return [...results.values()];
};

/** Divides attempts so that no part has two of the same delivery, the earlier ones first. */
const withoutRepetition = (
  attempts: readonly EndedAttempt[],
): readonly (readonly EndedAttempt[])[] => {
  const parts: EndedAttempt[][] = [];
  const counts = new Map<string, number>();
  for (const attempt of attempts) {
    const key = `${attempt.delivery.endpointId}/${attempt.delivery.id}`;
    const earlier = counts.get(key) ?? 0;
    counts.set(key, earlier + 1);
    (parts[earlier] ??= []).push(attempt);
  }
  return parts;
};

/**
 * Returns a function that records an attempt that has ended. Attempts that end while others are recorded are recorded
 * together.
 */
export const createAttemptRecords = (
  db: CommonQueryMethods,
): ((attempt: EndedAttempt) => Promise<void>) =>
  joinCalls(async (attempts: readonly EndedAttempt[]) => {
    for (const part of withoutRepetition(attempts)) {
      await recordAttempts(db, part);
    }
    await recordEndpointResults(db, resultsOf(attempts));
    return attempts.map(() => undefined);
  });

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
