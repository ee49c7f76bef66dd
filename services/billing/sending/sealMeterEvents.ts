import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { listStripeCustomerIds } from "../../../db/accounts/accounts.ts";
import type { SealedEvent, StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import { insertMeterEvents, listUnfinishedMeterEvents } from "../../../db/billing/meterEvents.ts";
import { lockStream, tryLockStreams } from "../../../db/billing/streams.ts";
import type { Deployment } from "../../../db/billing/deployment.ts";
import { readDeployment } from "../../../db/billing/deployment.ts";
import { cancelAttempts } from "../../../db/billing/sending/attempts.ts";
import type { UnsealedPart } from "../../../db/billing/sending/unsealedFacts.ts";
import { listOldestUnsealedFacts } from "../../../db/billing/sending/unsealedFacts.ts";
import { describeHold, findHold, findSealingProblem } from "../../../domain/billing/deployment.ts";
import { isUnfinished, stateAtSealing } from "../../../domain/billing/meterEvents.ts";
import type { ProcessorName, UsageStream } from "../../../domain/billing/usage.ts";
import { lastSealableSecond, streamKey } from "../../../domain/billing/usage.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";
import { currentTarget } from "../currentTarget.ts";
import { leaseOf } from "./attemptLease.ts";
import type { LeaseStart } from "./attemptLease.ts";
import { countFreeStripeCalls, reserveStripeCalls } from "./shareCallRate.ts";

/**
 * `event`: the event to send next. Its first attempt may have begun with the sealing; it may then call the processor from
 * `startsAtMs` on, by the monotonic clock. Otherwise it may be `isResumable`: a shard's sender may begin the next attempt. If
 * it is not, an attempt is in progress, its retry is not due, or the sender of its stream makes the next one. `none`: nothing is ready, or another transaction has locked the stream.
 * `stripe_missing`: the usage waits until Stripe is configured. `held`: nothing is sealed or sent until an operator ends
 * the hold. `wrong_processor`: this process must not seal the deployment's live usage.
 */
export type Sealing =
  | {
      readonly kind: "event";
      readonly event: StoredMeterEvent;
      readonly startsAtMs: number | null;
      readonly isResumable: boolean;
    }
  | { readonly kind: "none" }
  | { readonly kind: "stripe_missing" }
  | { readonly kind: "held"; readonly reason: string }
  | { readonly kind: "wrong_processor"; readonly problem: string };

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
};

const NONE: Sealing = { kind: "none" };

/** A stream, and the first second that may have usage to seal. Usage of earlier seconds is left for later. */
export type UnsealedStream = UsageStream & { readonly firstSecond: number };

/** A stream, and what decides where its usage is billed. */
type BilledStream = {
  readonly stream: UnsealedStream;
  readonly stripeCustomerId: string | null;
};

/**
 * Reserves the calls to Stripe of first attempts, and takes back those that get none. As long as the transaction goes on,
 * other workers wait for the reservation, so it is the last step.
 * @returns when each attempt may call Stripe, in their order; null if it is taken back
 */
const reserveFirstCalls = async (
  transaction: DatabaseTransactionConnection,
  events: readonly StoredMeterEvent[],
): Promise<readonly (number | null)[]> => {
  if (events.length === 0) {
    return [];
  }
  const { calls, startsAtMs } = await reserveStripeCalls(transaction, events.length);
  if (calls < events.length) {
    await cancelAttempts(
      transaction,
      events.slice(calls).map(({ id }) => id),
    );
  }
  return events.map((_, index) => (index < calls ? startsAtMs(index) : null));
};

/** Seals the oldest seconds' facts of streams without an unfinished event, until each has an event to send. */
const sealNewEvents = async (
  { clock, billing }: Dependencies,
  transaction: DatabaseTransactionConnection,
  streams: readonly BilledStream[],
  {
    mustWait,
    started,
  }: {
    readonly mustWait: (of: BilledStream, processor: ProcessorName) => boolean;
    readonly started: LeaseStart | null;
  },
): Promise<ReadonlyMap<UsageStream, Sealing>> => {
  const sealedAt = started?.at ?? clock.now();
  const results = new Map<UsageStream, Sealing>();
  const calls = new Map<UsageStream, StoredMeterEvent>();
  let freeCalls = started === null ? 0 : await countFreeStripeCalls(transaction);

  /** Decides on the groups of facts of a stream's second: up to the first event that is sent. */
  const decide = (billed: BilledStream, parts: readonly UnsealedPart[]): readonly SealedEvent[] => {
    const events: SealedEvent[] = [];
    for (const { ids, held, ...part } of parts) {
      const state = stateAtSealing({ held, quantity: part.quantity });
      if (state === "sealed" && mustWait(billed, part.processor)) {
        results.set(billed.stream, { kind: "stripe_missing" });
        break;
      }
      events.push({ ...part, stream: billed.stream, factIds: ids, state });
      if (state === "sealed") {
        break;
      }
    }
    return events;
  };

  /** Begins the attempt of an event, unless its call would have to wait. */
  const begin = (event: SealedEvent): SealedEvent => {
    const isCall = event.processor === "stripe";
    if (started === null || event.state !== "sealed" || (isCall && freeCalls === 0)) {
      return event;
    }
    freeCalls -= isCall ? 1 : 0;
    return { ...event, state: "sending" };
  };

  let open = streams;
  while (open.length > 0) {
    const partsOfStreams = await listOldestUnsealedFacts(
      transaction,
      open.map(({ stream, stripeCustomerId }) => ({
        ...stream,
        current: currentTarget(billing, stripeCustomerId, stream.mode),
      })),
      lastSealableSecond(sealedAt),
    );
    const events = open
      .flatMap((billed, index) => decide(billed, partsOfStreams[index] ?? []))
      .map(begin);
    const inserted =
      events.length === 0
        ? []
        : await insertMeterEvents(
            transaction,
            events,
            sealedAt,
            started === null ? null : leaseOf(started).until,
          );
    for (const [index, event] of inserted.entries()) {
      const stream = events[index]?.stream;
      if (stream && isUnfinished(event.state)) {
        const isBegun = event.state === "sending";
        results.set(stream, {
          kind: "event",
          event,
          startsAtMs: isBegun ? 0 : null,
          isResumable: !isBegun,
        });
        if (isBegun && event.processor === "stripe") {
          calls.set(stream, event);
        }
      }
    }
    // Void and held events were sealed along the way: the next second follows.
    open = open.filter(
      ({ stream }, index) => (partsOfStreams[index]?.length ?? 0) > 0 && !results.has(stream),
    );
  }
  const startsAtMs = await reserveFirstCalls(transaction, [...calls.values()]);
  for (const [index, [stream, event]] of [...calls].entries()) {
    const startMs = startsAtMs[index] ?? null;
    results.set(stream, {
      kind: "event",
      event: startMs === null ? { ...event, state: "sealed" } : event,
      startsAtMs: startMs,
      isResumable: startMs === null,
    });
  }
  return results;
};

const sealLocked = async (
  deps: Dependencies,
  transaction: DatabaseTransactionConnection,
  deployment: Deployment,
  streams: readonly UnsealedStream[],
  started: LeaseStart | null,
): Promise<ReadonlyMap<UsageStream, Sealing>> => {
  const { billing, clock } = deps;
  const customerIds = await listStripeCustomerIds(transaction, [
    ...new Set(streams.map(({ accountId }) => accountId)),
  ]);
  const lease = leaseOf(started ?? { at: clock.now() });
  const unfinished = new Map(
    (await listUnfinishedMeterEvents(transaction, streams, lease)).map(
      ({ isResumable, ...event }) => [streamKey(event), { event, isResumable }],
    ),
  );
  const problem = findSealingProblem(deployment.processor, billing.liveProcessor);
  const mustWait = ({ stream, stripeCustomerId }: BilledStream, processor: ProcessorName) =>
    stripeCustomerId !== null && billing.findProcessor(processor, stream.mode) === null;
  const results = new Map<UsageStream, Sealing>();
  const fresh: BilledStream[] = [];
  for (const stream of streams) {
    const billed = { stream, stripeCustomerId: customerIds.get(stream.accountId) ?? null };
    const current = unfinished.get(streamKey(stream));
    if (current) {
      results.set(
        stream,
        mustWait(billed, current.event.processor)
          ? { kind: "stripe_missing" }
          : { kind: "event", ...current, startsAtMs: null },
      );
    } else if (stream.mode === "live" && problem !== null && billed.stripeCustomerId === null) {
      results.set(stream, { kind: "wrong_processor", problem });
    } else {
      fresh.push(billed);
    }
  }
  return new Map([
    ...results,
    ...(await sealNewEvents(deps, transaction, fresh, { mustWait, started })),
  ]);
};

/**
 * Returns each stream's event to send next: the unfinished one, or else the facts of the oldest second from its first one on,
 * sealed now. Void and held events are sealed along the way. A stream that another transaction has locked is skipped.
 *
 * If Stripe is not configured, the usage of an account with a Stripe customer waits, so that one worker without the key
 * cannot fail it. If the account has left Stripe, its events for Stripe are returned and fail when they are sent.
 * @param started begins the first attempts of new events; null: they are only sealed
 * @param lock locks the streams and returns those that are locked
 * @returns the streams' results in their order
 */
const seal = (
  deps: Dependencies,
  streams: readonly UnsealedStream[],
  started: LeaseStart | null,
  lock: (transaction: DatabaseTransactionConnection) => Promise<ReadonlySet<UnsealedStream>>,
): Promise<readonly Sealing[]> =>
  deps.db.transaction(async (transaction) => {
    const locked = await lock(transaction);
    const deployment = await readDeployment(transaction);
    const hold = findHold(deployment);
    if (hold) {
      return streams.map(() => ({ kind: "held", reason: describeHold(hold) }));
    }
    const results = await sealLocked(deps, transaction, deployment, [...locked], started);
    return streams.map((stream) => results.get(stream) ?? NONE);
  });

/**
 * Seals the usage of many streams in one transaction. A stream that another transaction has locked is skipped.
 * @param started as for `seal`
 */
export const sealMeterEvents = (
  deps: Dependencies,
  streams: readonly UnsealedStream[],
  started: LeaseStart | null,
): Promise<readonly Sealing[]> =>
  seal(deps, streams, started, (transaction) => tryLockStreams(transaction, streams));

/** Seals the oldest usage of one stream. Waits while another transaction has locked it. */
export const sealMeterEvent = async (deps: Dependencies, stream: UsageStream): Promise<Sealing> => {
  const whole = { ...stream, firstSecond: 0 };
  const [sealing = NONE] = await seal(deps, [whole], null, async (transaction) => {
    await lockStream(transaction, whole);
    return new Set([whole]);
  });
  return sealing;
};
