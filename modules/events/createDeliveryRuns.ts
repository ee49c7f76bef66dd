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
import { SERVICE } from "../accounts/audit.rules.ts";
import { decideDelivery, decideDisabling } from "./decideDelivery.rules.ts";
import type { LastAttempt } from "./decideDelivery.rules.ts";
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

const MAXIMUM_SLOW = 10_000;

const FIRST_SECOND_MS = 1000;

export type DeliveryContext = Context & {
  readonly send: SendWebhook;
  /** Returns a number from 0 to 1, without 1. */
  readonly random: () => number;
  readonly observeAttempt: (delivery: ClaimedDelivery, attempt: LastAttempt) => void;
  /** Called when an endpoint was disabled because of its responses. */
  readonly observeDisabled: (endpoint: WebhookEndpoint) => void;
  /** Called when an attempt could not be made or recorded. It is made again after its lease. */
  readonly onFailure: (delivery: ClaimedDelivery, error: unknown) => void;
};

/** Disables the endpoint of a delivery that has failed for good, if it is gone or has failed for days. */
const disableIfDead = async (
  { db, clock, observeDisabled }: DeliveryContext,
  { delivery: { endpointId }, attempt, decision }: EndedAttempt,
): Promise<void> => {
  if (decision.state !== "failed") {
    return;
  }
  const now = clock.now();
  const failingSince = (await findEndpoint(db, endpointId))?.failingSince ?? now;
  const reason = decideDisabling(attempt, failingSince, now);
  const disabled =
    reason &&
    (await db.transaction((transaction) =>
      disableWebhookEndpoint(transaction, { clock, actor: SERVICE }, endpointId, reason),
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
  const { status, error } = result;
  const duration_ms = Math.round(performance.now() - startedAtMs);
  const attempt = { started_at: startedAt.toISOString(), duration_ms, status, error };
  const attempts = delivery.attempts + 1;
  const decision = decideDelivery(result, { attempts, now: endedAt, random: random() });
  return { delivery, endedAt, attempt, decision };
};

const createGate = (places: number): Gate =>
  new Gate({ places, maximumWaiting: Infinity, maximumWaitMs: Infinity });

/**
 * Creates the places that requests occupy in their first second, and until they are recorded. Endpoints take turns. Those whose
 * last request has lasted longer have places of their own, so servers that do not respond leave the others theirs, and slow
 * ones are never without.
 */
const createPlaces = () => {
  const gates = { quick: createGate(PLACES - SLOW_PLACES), slow: createGate(SLOW_PLACES) };
  const slow = new LRUCache<string, true>({ max: MAXIMUM_SLOW });
  const waiting = new Set<string>();

  return {
    countTaken: () => gates.quick.runningCount() + gates.slow.runningCount(),
    /**
     * Runs work in a place of an endpoint, unless the endpoint waits for one already, so that each does so once.
     * @param work makes its request by the function that it gets, and returns whether more may follow
     */
    inPlace: async (
      endpointId: string,
      work: (inTime: <Result>(request: Promise<Result>) => Promise<Result>) => Promise<boolean>,
    ): Promise<boolean> => {
      if (waiting.has(endpointId)) {
        return false;
      }
      const gate = gates[slow.has(endpointId) ? "slow" : "quick"];
      const pass = gate.enter(endpointId);
      if (!pass.isRunning) {
        waiting.add(endpointId);
        await gate.wait(pass);
        waiting.delete(endpointId);
      }
      const leave = (): void => {
        slow.set(endpointId, true);
        gate.leave(pass);
      };
      try {
        return await work(async (request) => {
          const timer = setTimeout(leave, FIRST_SECOND_MS);
          const result = await request.finally(() => clearTimeout(timer));
          if (pass.isRunning) {
            slow.delete(endpointId);
          }
          return result;
        });
      } finally {
        gate.end(pass);
      }
    },
  };
};

/**
 * Creates the making of deliveries. A loop claims a due delivery of its endpoint, sends it and records the attempt, until none
 * is due. Each delivery that is found starts another loop. What loops claim and record at the same time is one statement.
 * Everything that another process needs to continue is in the database. What is kept in memory makes it faster and fairer.
 * @param scan finds the endpoints with due deliveries
 */
export const createDeliveryWork = (context: DeliveryContext, scan: Scan<string>): Work<string> => {
  const { db, clock, observeAttempt, onFailure } = context;
  const { inPlace, countTaken } = createPlaces();
  // Claims and records are gathered into one statement: for 30 ms at most, and hardly if an endpoint is alone.
  const collectMs = (): number => countTaken() / 8;
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

  return {
    scan,
    keyOf: String,
    maximumLoops: REQUESTS_OF_ENDPOINT,
    loop: async (endpointId, { mayBegin, startAnother, signal }) => {
      /** Returns whether there was a delivery. */
      const attemptNext = (): Promise<boolean> =>
        inPlace(endpointId, async (inTime) => {
          const delivery = mayBegin() ? await claim(endpointId) : null;
          if (delivery === null) {
            return false;
          }
          startAnother();
          try {
            const ended = await inTime(makeAttempt(context, delivery, signal));
            await record(ended);
            observeAttempt(delivery, ended.attempt);
            await disableIfDead(context, ended);
          } catch (error) {
            if (error !== signal.reason) {
              onFailure(delivery, error);
            }
          }
          return true;
        });
      while (await attemptNext()) {
        // Until no delivery is due.
      }
    },
  };
};

export const createDeliveryRuns = (
  context: DeliveryContext,
  { runMs }: Pick<RunOptions<never>, "runMs"> = {},
): Runs => {
  const { db, clock } = context;
  const scan = createScan<string>(clock, (page) => listDueEndpoints(db, page));
  const work = createDeliveryWork(context, scan);
  return createRuns(context, { kind: "webhook-sender", work, runMs });
};
