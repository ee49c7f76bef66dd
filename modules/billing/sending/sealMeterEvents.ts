import type { DatabaseTransactionConnection } from "slonik";
import { ownerKey } from "../../records/owner.rules.ts";
import type { Owner } from "../../records/owner.rules.ts";
import { listStripeCustomerIds } from "../../accounts/accounts.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { listUnfinishedMeterEvents } from "../meterEvents.sql.ts";
import type { SealedEvent, UnsealedPart } from "./sealMeterEvents.sql.ts";
import { insertMeterEvents, listOldestUnsealedFacts } from "./sealMeterEvents.sql.ts";
import { tryLockStreams } from "../streams.sql.ts";
import type { Deployment } from "../deployment.sql.ts";
import { readDeployment } from "../deployment.sql.ts";
import { cancelAttempts } from "./attempts.sql.ts";
import { describeHold, findHold, findSealingProblem } from "../deployment.rules.ts";
import { isUnfinished, stateAtSealing } from "../meterEvents.rules.ts";
import type { ProcessorName } from "../usage.rules.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import type { Billing } from "../createBilling.ts";
import { currentTarget } from "../createBilling.ts";
import type { BillingContext } from "../context.ts";
import { leaseOf } from "./attemptLease.ts";
import type { LeaseStart } from "./attemptLease.ts";
import { countFreeStripeCalls, reserveStripeCalls } from "./shareCallRate.ts";

/**
 * `event`: the event to send next. Its first attempt may have begun with the sealing; it may then call the processor from
 * `startsAtMs` on, by the monotonic clock. Otherwise it may be `isResumable`: a shard's sender may begin the next attempt. If
 * it is not, an attempt is in progress, its retry is not due, or the sender of its stream makes the next one.
 * `none`: nothing is ready, or another transaction has locked the stream.
 * `more`: void and held events were sealed, and usage from the second on may be left.
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
  | { readonly kind: "more"; readonly second: number }
  | { readonly kind: "stripe_missing" }
  | { readonly kind: "held"; readonly reason: string }
  | { readonly kind: "wrong_processor"; readonly problem: string };

const NONE: Sealing = { kind: "none" };

/** Most streams have an event to send in their oldest second. Of those that have none, each round looks at more facts. */
const FACTS_GROWTH = 4;

/** After how many facts a transaction ends. Its time is lost to the leases of the attempts that begin with it. */
const ENOUGH_FACTS = 1000;

/** A stream, and the first second that may have usage to seal. Usage of earlier seconds is left for later. */
export type UnsealedStream = Owner & { readonly firstSecond: number };

/** A stream, and what decides where its usage is billed. */
type BilledStream = {
  readonly stream: UnsealedStream;
  readonly stripeCustomerId: string | null;
};

/** Results by the keys of their streams. */
type Sealings = ReadonlyMap<string, Sealing>;

/** Whether usage waits, because this process lacks the processor of an account with a Stripe customer. */
const lacksProcessor = (
  billing: Billing,
  { stream, stripeCustomerId }: BilledStream,
  processor: ProcessorName,
): boolean => stripeCustomerId !== null && billing.findProcessor(processor, stream.mode) === null;

type Decision = {
  readonly events: readonly SealedEvent[];
  /** The result of the stream; null if the last event is sent. */
  readonly sealing: Sealing | null;
};

/** Decides on the groups of facts of a stream's oldest seconds: up to the first event that is sent. */
const decideEvents = (
  billing: Billing,
  billed: BilledStream,
  parts: readonly UnsealedPart[],
): Decision => {
  const events: SealedEvent[] = [];
  for (const { ids, held, ...part } of parts) {
    const state = stateAtSealing({ held, quantity: part.quantity });
    if (state === "sealed" && lacksProcessor(billing, billed, part.processor)) {
      return { events, sealing: { kind: "stripe_missing" } };
    }
    events.push({ ...part, stream: billed.stream, factIds: ids, state });
    if (state === "sealed") {
      return { events, sealing: null };
    }
  }
  // Not even the oldest second is skipped: it may have more held units than fit into one event.
  const [oldest] = parts;
  return { events, sealing: oldest ? { kind: "more", second: oldest.second } : NONE };
};

const decideRound = async (
  billing: Billing,
  transaction: DatabaseTransactionConnection,
  streams: readonly BilledStream[],
  range: { readonly lastSecond: number; readonly facts: number },
): Promise<readonly Decision[]> => {
  const searched = streams.map(({ stream, stripeCustomerId }) => ({
    ...stream,
    current: currentTarget(billing, stripeCustomerId, stream.mode),
  }));
  const parts = await listOldestUnsealedFacts(transaction, searched, range);
  return streams.map((billed, index) => decideEvents(billing, billed, parts[index] ?? []));
};

/** Begins the attempts of events that are sent, except for calls to Stripe that would have to wait. */
const beginAttempts = (
  events: readonly SealedEvent[],
  freeCalls: number,
): readonly SealedEvent[] => {
  let calls = 0;
  return events.map((event) => {
    const isCall = event.processor === "stripe";
    if (event.state !== "sealed" || (isCall && calls >= freeCalls)) {
      return event;
    }
    calls += isCall ? 1 : 0;
    return { ...event, state: "sending" };
  });
};

const isBegunCall = ({ state, processor }: StoredMeterEvent): boolean =>
  state === "sending" && processor === "stripe";

/**
 * Reserves the calls to Stripe of attempts that began with their sealing, and takes back those that get none. As long as
 * the transaction goes on, other workers wait for the reservation, so it is the last step.
 * @param events the events to send, in the order of their calls
 * @returns when each attempt that has begun may call its processor, by the id of its event
 */
const reserveFirstCalls = async (
  transaction: DatabaseTransactionConnection,
  events: readonly StoredMeterEvent[],
): Promise<ReadonlyMap<bigint, number>> => {
  const begun = events.filter(({ state }) => state === "sending").map(({ id }) => id);
  const calls = events.filter(isBegunCall).map(({ id }) => id);
  const starts = new Map(begun.map((id) => [id, 0]));
  if (calls.length > 0) {
    const reserved = await reserveStripeCalls(transaction, calls.length);
    for (const [index, id] of calls.entries()) {
      starts.set(id, reserved.startsAtMs(index));
    }
    const canceled = calls.slice(reserved.calls);
    if (canceled.length > 0) {
      await cancelAttempts(transaction, canceled);
      canceled.forEach((id) => starts.delete(id));
    }
  }
  return starts;
};

/**
 * Seals the oldest seconds' facts of streams without an unfinished event, until each has an event to send or enough is
 * sealed.
 */
const sealNewEvents = async (
  { billing }: BillingContext,
  transaction: DatabaseTransactionConnection,
  streams: readonly BilledStream[],
  started: LeaseStart,
): Promise<Sealings> => {
  const { now, until } = leaseOf(started);
  const freeCalls = await countFreeStripeCalls(transaction);
  const results = new Map<string, Sealing>();
  const sent: StoredMeterEvent[] = [];
  let open = streams;
  let sealed = 0;
  for (let facts = 1; open.length > 0 && sealed < ENOUGH_FACTS; facts *= FACTS_GROWTH) {
    const range = { lastSecond: lastSealableSecond(now), facts };
    const decisions = await decideRound(billing, transaction, open, range);
    const decided = decisions.flatMap(({ events }) => events);
    const free = freeCalls - sent.filter(isBegunCall).length;
    const events = beginAttempts(decided, free);
    const inserted =
      events.length === 0 ? [] : await insertMeterEvents(transaction, events, now, until);
    sent.push(...inserted.filter(({ state }) => isUnfinished(state)));
    sealed += events.flatMap(({ factIds }) => factIds).length;
    open = open.flatMap(({ stream, ...billed }, index) => {
      const sealing = decisions[index]?.sealing ?? NONE;
      results.set(ownerKey(stream), sealing);
      return sealing.kind === "more"
        ? [{ ...billed, stream: { ...stream, firstSecond: sealing.second } }]
        : [];
    });
  }
  const starts = await reserveFirstCalls(transaction, sent);
  for (const event of sent) {
    const startsAtMs = starts.get(event.id) ?? null;
    results.set(ownerKey(event), {
      kind: "event",
      event: startsAtMs === null ? { ...event, state: "sealed" } : event,
      startsAtMs,
      isResumable: startsAtMs === null,
    });
  }
  return results;
};

const sealLocked = async (
  context: BillingContext,
  transaction: DatabaseTransactionConnection,
  deployment: Deployment,
  streams: readonly UnsealedStream[],
  started: LeaseStart,
): Promise<Sealings> => {
  const { billing } = context;
  const customerIds = await listStripeCustomerIds(transaction, [
    ...new Set(streams.map(({ accountId }) => accountId)),
  ]);
  const lease = leaseOf(started);
  const unfinished = new Map(
    (await listUnfinishedMeterEvents(transaction, streams, lease)).map(
      ({ isResumable, ...event }) => [ownerKey(event), { event, isResumable }],
    ),
  );
  const problem = findSealingProblem(deployment.processor, billing.liveProcessor);
  const results = new Map<string, Sealing>();
  const fresh: BilledStream[] = [];
  for (const stream of streams) {
    const billed = { stream, stripeCustomerId: customerIds.get(stream.accountId) ?? null };
    const key = ownerKey(stream);
    const current = unfinished.get(key);
    if (current) {
      const isMissing = lacksProcessor(billing, billed, current.event.processor);
      results.set(
        key,
        isMissing ? { kind: "stripe_missing" } : { kind: "event", ...current, startsAtMs: null },
      );
    } else if (stream.mode === "live" && problem !== null && billed.stripeCustomerId === null) {
      results.set(key, { kind: "wrong_processor", problem });
    } else {
      fresh.push(billed);
    }
  }
  return new Map([...results, ...(await sealNewEvents(context, transaction, fresh, started))]);
};

/**
 * Returns each stream's event to send next: the unfinished one, or else the facts of the oldest second from its first one on,
 * sealed now. Void and held events are sealed along the way; if there are many, a later call goes on. A stream that another
 * transaction has locked is skipped.
 *
 * If Stripe is not configured, the usage of an account with a Stripe customer waits, so that one worker without the key
 * cannot fail it. If the account has left Stripe, its events for Stripe are returned and fail when they are sent.
 * @param started when the leases of the first attempts of new events begin
 * @returns the streams' results in their order
 */
export const sealMeterEvents = (
  context: BillingContext,
  streams: readonly UnsealedStream[],
  started: LeaseStart,
): Promise<readonly Sealing[]> =>
  context.db.transaction(async (transaction) => {
    const locked = await tryLockStreams(transaction, streams);
    const deployment = await readDeployment(transaction);
    const hold = findHold(deployment);
    if (hold) {
      return streams.map(() => ({ kind: "held", reason: describeHold(hold) }));
    }
    const results = await sealLocked(context, transaction, deployment, [...locked], started);
    return streams.map((stream) => results.get(ownerKey(stream)) ?? NONE);
  });
