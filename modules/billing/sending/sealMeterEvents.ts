import type { DatabaseTransactionConnection } from "slonik";
import { ownerKey } from "../../records/owner.rules.ts";
import type { Owner } from "../../records/owner.rules.ts";
import { listStripeCustomerIds } from "../../accounts/accounts.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import type { SealedEvent, UnsealedPart } from "./sealMeterEvents.sql.ts";
import { insertMeterEvents, listOldestUnsealedFacts } from "./sealMeterEvents.sql.ts";
import { tryLockStreams } from "../streams.sql.ts";
import { listNextEvents } from "./waitingStreams.sql.ts";
import type { Deployment } from "../deployment.sql.ts";
import { readDeployment } from "../deployment.sql.ts";
import { cancelAttempts } from "./attempts.sql.ts";
import { describeHold, findHold, findSealingProblem } from "../deployment.rules.ts";
import { stateAtSealing } from "./stateAtSealing.rules.ts";
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
 * `more`: events that are not sent were sealed, and usage from the second on may be left.
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

/** Whether usage waits, because this process lacks Stripe and the account has a Stripe customer. */
const lacksStripe = (
  billing: Billing,
  { stripeCustomerId }: BilledStream,
  processor: ProcessorName,
): boolean => stripeCustomerId !== null && processor === "stripe" && billing.stripe === null;

type Decision = {
  readonly events: readonly SealedEvent[];
  /** The result of the stream; null if the last event is sent. */
  readonly sealing: Sealing | null;
};

/**
 * Decides on the groups of facts of a stream's oldest seconds: up to the first event that is sent. Those about which the
 * processor is asked first keep no other from being sent.
 */
const decideEvents = (
  billing: Billing,
  billed: BilledStream,
  parts: readonly UnsealedPart[],
  doubtedUntil: Date | null,
): Decision => {
  const events: SealedEvent[] = [];
  for (const { ids, isUsageClosed, isDoubted, ...part } of parts) {
    const sealed = stateAtSealing({ ...part, isUsageClosed });
    if (sealed.state === "pending" && lacksStripe(billing, billed, part.processor)) {
      return { events, sealing: { kind: "stripe_missing" } };
    }
    events.push({
      ...part,
      ...sealed,
      waitsFor: sealed.failure === null ? null : part.waitsFor,
      stream: billed.stream,
      factIds: ids,
      askingSince: isDoubted ? doubtedUntil : null,
      isAttempted: false,
    });
    if (sealed.state === "pending" && !isDoubted) {
      return { events, sealing: null };
    }
  }
  // Not even the oldest second is skipped: it may have more units than fit into one event.
  const [oldest] = parts;
  return { events, sealing: oldest ? { kind: "more", second: oldest.second } : NONE };
};

const decideRound = async (
  billing: Billing,
  transaction: DatabaseTransactionConnection,
  streams: readonly BilledStream[],
  range: Parameters<typeof listOldestUnsealedFacts>[2] & { readonly doubtedUntil: Date | null },
): Promise<readonly Decision[]> => {
  const searched = streams.map(({ stream, stripeCustomerId }) => ({
    ...stream,
    current: currentTarget(billing, stripeCustomerId, stream.mode),
  }));
  const parts = await listOldestUnsealedFacts(transaction, searched, range);
  return streams.map((billed, index) =>
    decideEvents(billing, billed, parts[index] ?? [], range.doubtedUntil),
  );
};

/** Begins the attempts of events that are sent, except for calls that would have to wait. */
const beginAttempts = (
  events: readonly SealedEvent[],
  freeCalls: number,
): readonly SealedEvent[] => {
  let calls = 0;
  return events.map((event) => {
    if (event.state !== "pending" || event.askingSince !== null || calls >= freeCalls) {
      return event;
    }
    calls += 1;
    return { ...event, isAttempted: true };
  });
};

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
  const calls = events.filter(({ attempts }) => attempts > 0).map(({ id }) => id);
  if (calls.length === 0) {
    return new Map();
  }
  const reserved = await reserveStripeCalls(transaction, calls.length);
  const canceled = calls.slice(reserved.calls);
  if (canceled.length > 0) {
    await cancelAttempts(transaction, canceled);
  }
  return new Map(
    calls.slice(0, reserved.calls).map((id, index) => [id, reserved.startsAtMs(index)]),
  );
};

/** Seals the oldest seconds' facts of streams without a pending event, until each has one to send or enough is sealed. */
const sealNewEvents = async (
  { billing }: BillingContext,
  transaction: DatabaseTransactionConnection,
  { doubtedFactId, doubtedUntil }: Deployment,
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
    const range = { lastSecond: lastSealableSecond(now), facts, doubtedFactId, doubtedUntil };
    const decisions = await decideRound(billing, transaction, open, range);
    const decided = decisions.flatMap(({ events }) => events);
    const free = freeCalls - sent.filter(({ attempts }) => attempts > 0).length;
    const events = beginAttempts(decided, free);
    const inserted =
      events.length === 0 ? [] : await insertMeterEvents(transaction, events, now, until);
    sent.push(
      ...inserted.filter(({ state, askingSince }) => state === "pending" && askingSince === null),
    );
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
      event,
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
  const pending = new Map(
    (await listNextEvents(transaction, streams, lease)).map(({ isResumable, ...event }) => [
      ownerKey(event),
      { event, isResumable },
    ]),
  );
  const problem = findSealingProblem(deployment.processor, billing.liveProcessor);
  const results = new Map<string, Sealing>();
  const fresh: BilledStream[] = [];
  for (const stream of streams) {
    const billed = { stream, stripeCustomerId: customerIds.get(stream.accountId) ?? null };
    const key = ownerKey(stream);
    const current = pending.get(key);
    if (current) {
      const isMissing = lacksStripe(billing, billed, current.event.processor);
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
  return new Map([
    ...results,
    ...(await sealNewEvents(context, transaction, deployment, fresh, started)),
  ]);
};

/**
 * Returns each stream's event to send next: the pending one, or else the facts of the oldest second from its first one on,
 * sealed now. Events that are not sent are sealed along the way; if there are many, a later call goes on. A stream that another
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
