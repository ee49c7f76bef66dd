import { setTimeout as sleep } from "node:timers/promises";
import { claimDeliveries, listDueEndpoints, recordAttempts } from "./attempts.sql.ts";
import type { ClaimedDelivery, EndedAttempt } from "./attempts.sql.ts";
import { findEndpoint } from "./endpoints.sql.ts";
import { createRuns } from "../../db/createRuns.ts";
import type { RunOptions, Runs, Sender } from "../../db/createRuns.ts";
import { createScan } from "../../db/createScan.ts";
import type { Scan } from "../../db/createScan.ts";
import { joinCalls } from "../../db/batching/joinCalls.ts";
import { awaitAtMost } from "../../runtime/waiting.ts";
import { SERVICE } from "../accounts/audit.rules.ts";
import { decideDelivery, decideDisabling } from "./decideDelivery.rules.ts";
import type { DeliveryContext } from "./context.ts";
import { disableWebhookEndpoint } from "./manageWebhookEndpoints.ts";
import { createEndpointQueue } from "./createEndpointQueue.ts";
import { signWebhook } from "./signWebhook.ts";

/**
 * How long endpoints that have a free place again are gathered, so that one statement claims for them all: a millisecond for
 * each request in progress, at most this time. An endpoint that is alone hardly waits.
 */
const MAXIMUM_GATHER_MS = 50;

/** If recording is slower than the receivers, no more is sent. What is not recorded by the end of its lease is sent again. */
const MAXIMUM_UNRECORDED = 2000;

export type DeliverySenderOptions = {
  /** Scans for endpoints with due deliveries. */
  readonly scanEndpoints: Scan<string>;
  /** Called when an attempt could not be made or recorded. It is made again after its lease. */
  readonly onFailure: (delivery: ClaimedDelivery, error: unknown) => void;
  /** Interrupts the requests in progress. */
  readonly signal: AbortSignal;
};

/** Disables the endpoint of a delivery that has failed, if it is gone or has failed for days, unless its URL was changed. */
const disableIfDead = async (
  { db, clock, observeDisabled }: DeliveryContext,
  { delivery: { endpointId, url }, result, decision }: EndedAttempt,
): Promise<void> => {
  const now = clock.now();
  const failingSince = (await findEndpoint(db, endpointId))?.failingSince ?? now;
  const reason = decideDisabling(result, decision.state, failingSince, now);
  const disabled =
    reason &&
    (await db.transaction((transaction) =>
      disableWebhookEndpoint(transaction, { clock, actor: SERVICE }, endpointId, { reason, url }),
    ));
  if (disabled) {
    observeDisabled(disabled);
  }
};

/**
 * Makes one request, and returns how it has ended and what follows.
 * @throws the signal's reason if it is interrupted
 */
const makeAttempt = async (
  { clock, send, random }: DeliveryContext,
  delivery: ClaimedDelivery,
  signal: AbortSignal,
): Promise<EndedAttempt> => {
  const startedAt = clock.now();
  const startedAtMs = performance.now();
  const request = { url: delivery.url, ...signWebhook(delivery, delivery.secrets, startedAt) };
  const result = await send(request, signal);
  const endedAt = clock.now();
  const durationMs = Math.round(performance.now() - startedAtMs);
  const attempts = delivery.attempts + 1;
  const decision = decideDelivery(result, { attempts, now: endedAt, random: random() });
  return { delivery, startedAt, endedAt, durationMs, result, decision };
};

/**
 * Creates what makes the deliveries. A step claims due deliveries of many endpoints in one statement
 * and begins to send them; an attempt is recorded with those that end at the same time. Everything that another process
 * needs to continue is in the database. What is kept in memory makes it faster and fairer.
 */
export const createDeliverySender = (
  context: DeliveryContext,
  { scanEndpoints, onFailure, signal }: DeliverySenderOptions,
): Sender => {
  const { db, clock, observeAttempt } = context;
  const queue = createEndpointQueue();
  const record = joinCalls(async (ended: readonly EndedAttempt[]) => {
    await recordAttempts(db, ended);
    return ended;
  });
  const attempts = new Set<Promise<void>>();
  let wake = Promise.withResolvers<void>();

  const deliver = async (delivery: ClaimedDelivery): Promise<void> => {
    const end = queue.begin(delivery.endpointId);
    let attempt: EndedAttempt | null = null;
    try {
      attempt = await makeAttempt(context, delivery, signal);
    } catch (error) {
      if (!signal.aborted) {
        throw error;
      }
    } finally {
      end();
      if (!queue.isEmpty()) {
        wake.resolve();
      }
    }
    if (attempt !== null) {
      await record(attempt);
      observeAttempt(delivery, attempt.result);
      if (attempt.decision.state === "failed") {
        await disableIfDead(context, attempt);
      }
    }
  };

  signal.addEventListener("abort", () => wake.resolve(), { once: true });

  return {
    scan: async () => {
      for (const id of (await scanEndpoints()) ?? []) {
        queue.add(id);
      }
      wake.resolve();
    },
    step: async () => {
      wake = Promise.withResolvers<void>();
      const unrecorded = attempts.size - queue.running();
      const endpoints = unrecorded < MAXIMUM_UNRECORDED ? queue.take() : [];
      if (endpoints.length === 0) {
        return;
      }
      const claimed = Map.groupBy(
        await claimDeliveries(db, endpoints, clock.now()),
        ({ endpointId }) => endpointId,
      );
      for (const { endpointId, places } of endpoints) {
        const deliveries = claimed.get(endpointId) ?? [];
        // It may have more. Of the others, the next scan finds what becomes due.
        if (deliveries.length === places) {
          queue.add(endpointId);
        }
        for (const delivery of deliveries) {
          const attempt = deliver(delivery)
            .catch((error: unknown) => onFailure(delivery, error))
            .finally(() => attempts.delete(attempt));
          attempts.add(attempt);
        }
      }
    },
    waitForWork: async (atMostMs) => {
      await awaitAtMost(wake.promise, atMostMs);
      await sleep(Math.min(queue.running(), MAXIMUM_GATHER_MS, atMostMs));
    },
    settled: async () => {
      while (attempts.size > 0) {
        await Promise.all(attempts);
      }
    },
  };
};

/** Creates the runs that make the deliveries. */
export const createDeliveryRuns = (
  context: DeliveryContext,
  { onFailure, runMs }: Pick<DeliverySenderOptions, "onFailure"> & Pick<RunOptions, "runMs">,
): Runs => {
  const { db, clock } = context;
  const scanEndpoints = createScan<string>(clock, (page) => listDueEndpoints(db, page));
  return createRuns(context, {
    kind: "webhook-sender",
    createSender: (signal) => createDeliverySender(context, { scanEndpoints, onFailure, signal }),
    runMs,
  });
};
