import { LRUCache } from "lru-cache";
import { claimDeliveries, listDueEndpoints, recordAttempts } from "./attempts.sql.ts";
import type { ClaimedDelivery, EndedAttempt } from "./attempts.sql.ts";
import { findEndpoint } from "./endpoints.sql.ts";
import { createRuns } from "../../db/createRuns.ts";
import type { RunOptions, Runs, Work } from "../../db/createRuns.ts";
import { createScan } from "../../db/createScan.ts";
import type { Scan } from "../../db/createScan.ts";
import { joinCalls } from "../../db/batching/joinCalls.ts";
import type { Context } from "../../runtime/context.ts";
import { Gate } from "../../runtime/gate.ts";
import type { Pass } from "../../runtime/gate.ts";
import { SERVICE } from "../accounts/audit.rules.ts";
import { decideDelivery, decideDisabling } from "./decideDelivery.rules.ts";
import type { AttemptResult } from "./decideDelivery.rules.ts";
import type { SendWebhook } from "./createWebhookSender.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import { disableWebhookEndpoint } from "./manageWebhookEndpoints.ts";
import { signWebhook } from "./signWebhook.ts";

/** How many requests an endpoint receives at the same time. */
const REQUESTS_OF_ENDPOINT = 10;

/** How many requests may be in their first second. More would keep a busy worker from sending each of them within it. */
const PLACES = 240;

/** How many of them are of slow endpoints, which get that many requests a second at most. */
const SLOW_PLACES = 60;

/** How many slow endpoints are remembered. */
const MAXIMUM_SLOW = 10_000;

const FIRST_SECOND_MS = 1000;

/**
 * How long claims and records are gathered into one statement: a millisecond for four requests in progress, at most this time. An
 * endpoint that is alone hardly waits.
 */
const MAXIMUM_GATHER_MS = 50;

/** If recording is slower than the receivers, no more is sent. What is not recorded by the end of its lease is sent again. */
const MAXIMUM_UNRECORDED = 2000;

export type DeliveryContext = Context & {
  readonly send: SendWebhook;
  /** Returns a number from 0 to 1, without 1. */
  readonly random: () => number;
  /** Called after each attempt. */
  readonly observeAttempt: (delivery: ClaimedDelivery, result: AttemptResult) => void;
  /** Called when an endpoint was disabled because of its responses. */
  readonly observeDisabled: (endpoint: WebhookEndpoint) => void;
};

type DeliveryOptions = {
  /** Scans for endpoints with due deliveries. */
  readonly scan: Scan<string>;
  /** Called when an attempt could not be made or recorded. It is made again after its lease. */
  readonly onFailure: (delivery: ClaimedDelivery, error: unknown) => void;
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

const createGate = (places: number): Gate =>
  new Gate({ places, maximumWaiting: Infinity, maximumWaitMs: Infinity });

/**
 * Creates the places that requests occupy in their first second. Endpoints take turns. Those whose last request has lasted longer
 * have places of their own, so servers that do not respond leave the others theirs, and slow ones are never without.
 */
const createPlaces = () => {
  const gates = { quick: createGate(PLACES - SLOW_PLACES), slow: createGate(SLOW_PLACES) };
  const slow = new LRUCache<string, true>({ max: MAXIMUM_SLOW });
  const waiting = new Set<string>();
  const gateOf = (endpointId: string): Gate => gates[slow.has(endpointId) ? "slow" : "quick"];

  /** Returns null if the endpoint waits already, so that each does so once, however long many endpoints wait. */
  const enter = async (endpointId: string): Promise<Pass | null> => {
    if (waiting.has(endpointId)) {
      return null;
    }
    const gate = gateOf(endpointId);
    const pass = gate.enter(endpointId);
    if (!pass.isRunning) {
      waiting.add(endpointId);
      await gate.wait(pass);
      waiting.delete(endpointId);
    }
    // It may have become slow or quick meanwhile.
    if (gate !== gateOf(endpointId)) {
      gate.end(pass);
      return enter(endpointId);
    }
    return pass;
  };

  return {
    countTaken: () => gates.quick.runningCount() + gates.slow.runningCount(),
    /**
     * Runs work in a place of an endpoint. Its request, if there is one, begins when the work calls its argument.
     * @returns null if the endpoint waits already, whose turn serves all of its work
     */
    inPlace: async <Result>(
      endpointId: string,
      work: (beginRequest: () => void) => Promise<Result>,
    ): Promise<Result | null> => {
      const pass = await enter(endpointId);
      if (pass === null) {
        return null;
      }
      let timer: NodeJS.Timeout | null = null;
      const leave = (): void => {
        slow.set(endpointId, true);
        pass.gate.leave(pass);
      };
      try {
        return await work(() => {
          timer = setTimeout(leave, FIRST_SECOND_MS);
        });
      } finally {
        if (timer !== null && pass.isRunning) {
          clearTimeout(timer);
          slow.delete(endpointId);
        }
        pass.gate.end(pass);
      }
    },
  };
};

/**
 * Creates the making of deliveries. A loop claims a due delivery of its endpoint, sends it and records the attempt, until none
 * is due. Each delivery that is found starts another loop. What loops claim and record at the same time is one statement.
 * Everything that another process needs to continue is in the database. What is kept in memory makes it faster and fairer.
 */
export const createDeliveryWork = (
  context: DeliveryContext,
  { scan, onFailure }: DeliveryOptions,
): Work<string> => {
  const { db, clock, observeAttempt } = context;
  const { inPlace, countTaken } = createPlaces();
  const collectMs = (): number => Math.min(countTaken() / 4, MAXIMUM_GATHER_MS);
  const claim = joinCalls(
    async (endpointIds: readonly string[]) => {
      const claimed = await claimDeliveries(db, endpointIds, clock.now());
      const ofEndpoints = Map.groupBy(claimed, ({ endpointId }) => endpointId);
      return endpointIds.map((id) => ofEndpoints.get(id)?.shift() ?? null);
    },
    { collectMs },
  );
  const record = joinCalls(
    async (ended: readonly EndedAttempt[]) => {
      await recordAttempts(db, ended);
      return ended;
    },
    { collectMs },
  );
  let unrecorded = 0;

  const settle = async (attempt: EndedAttempt): Promise<void> => {
    unrecorded += 1;
    await record(attempt).finally(() => {
      unrecorded -= 1;
    });
    observeAttempt(attempt.delivery, attempt.result);
    if (attempt.decision.state === "failed") {
      await disableIfDead(context, attempt);
    }
  };

  return {
    scan,
    keyOf: String,
    maximumLoops: REQUESTS_OF_ENDPOINT,
    loop: async (endpointId, { mayBegin, startAnother, signal }) => {
      /** Returns null if nothing is due or may begin, another loop goes on, or the request was interrupted. */
      const attemptNext = (): Promise<EndedAttempt | null> =>
        inPlace(endpointId, async (beginRequest) => {
          const mayClaim = mayBegin() && unrecorded < MAXIMUM_UNRECORDED;
          const delivery = mayClaim ? await claim(endpointId) : null;
          if (delivery === null) {
            return null;
          }
          startAnother();
          beginRequest();
          return makeAttempt(context, delivery, signal).catch((error: unknown) => {
            if (!signal.aborted) {
              onFailure(delivery, error);
            }
            return null;
          });
        });
      let attempt = await attemptNext();
      while (attempt !== null) {
        const { delivery } = attempt;
        await settle(attempt).catch((error: unknown) => onFailure(delivery, error));
        attempt = await attemptNext();
      }
    },
  };
};

/** Creates the runs that make the deliveries. */
export const createDeliveryRuns = (
  context: DeliveryContext,
  { onFailure, runMs }: Pick<DeliveryOptions, "onFailure"> & Pick<RunOptions<never>, "runMs">,
): Runs => {
  const { db, clock } = context;
  const scan = createScan<string>(clock, (page) => listDueEndpoints(db, page));
  const work = createDeliveryWork(context, { scan, onFailure });
  return createRuns(context, { kind: "webhook-sender", work, runMs });
};
