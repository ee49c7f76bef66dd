import type { DatabaseTransactionConnection } from "slonik";
import { ownerKey } from "../../records/owner.rules.ts";
import { listStripeCustomerIds } from "../../accounts/accounts.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import type { SealedEvent, UnsealedPart } from "./sealMeterEvents.sql.ts";
import { insertMeterEvents, listOldestUnsealedFacts } from "./sealMeterEvents.sql.ts";
import { tryLockStreams } from "../streams.sql.ts";
import { beginAttempts } from "./attempts.sql.ts";
import { listNextEvents } from "./waitingStreams.sql.ts";
import type { UnsentStream } from "./waitingStreams.sql.ts";
import type { Deployment } from "../deployment.sql.ts";
import { readDeployment } from "../deployment.sql.ts";
import { findSealingProblem } from "../deployment.rules.ts";
import { misconfigured, stateAtSealing, STRIPE_MISSING } from "./decideNextStep.rules.ts";
import type { Delay } from "./decideNextStep.rules.ts";
import type { BillingTarget, ProcessorName } from "../usage.rules.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import { currentTarget } from "../createBilling.ts";
import type { Billing } from "../createBilling.ts";
import type { BillingContext } from "../context.ts";

/**
 * `event`: its next attempt has begun. `none`: nothing is ready, or another transaction has locked the stream.
 * `more`: events that are not sent were sealed, and usage from the second on may be left.
 * `waits`: this process is not set up for the usage. `held`: nothing is sealed or sent until an operator ends the hold.
 */
export type Sealing =
  | { readonly kind: "event"; readonly event: StoredMeterEvent }
  | { readonly kind: "none" }
  | { readonly kind: "more"; readonly second: number }
  | { readonly kind: "waits"; readonly delay: Delay }
  | { readonly kind: "held" };

const NONE: Sealing = { kind: "none" };

/** In a process without Stripe's key, usage for Stripe waits. */
const WITHOUT_STRIPE: Sealing = { kind: "waits", delay: misconfigured(STRIPE_MISSING) };

/** Most streams have an event to send in their oldest second. Of those that have none, each round looks at more facts. */
const FACTS_GROWTH = 4;

/** After how many facts a transaction ends, so that the first events need not wait for the last ones. */
const ENOUGH_FACTS = 1000;

/** A stream, and where its new usage is billed. */
type BilledStream = UnsentStream & { readonly current: BillingTarget };

/** Results by the keys of their streams. */
type Sealings = Map<string, Sealing>;

const lacksStripe = ({ stripe }: Billing, processor: ProcessorName): boolean =>
  processor === "stripe" && stripe === null;

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
  stream: BilledStream,
  parts: readonly UnsealedPart[],
  doubtedUntil: Date | null,
): Decision => {
  const { accountId, mode, kind } = stream;
  const events: SealedEvent[] = [];
  for (const { ids, isUsageClosed, isDoubted, ...part } of parts) {
    const sealed = stateAtSealing({ ...part, isUsageClosed });
    if (sealed.state === "pending" && lacksStripe(billing, part.processor)) {
      return { events, sealing: WITHOUT_STRIPE };
    }
    events.push({
      ...part,
      ...sealed,
      waitsFor: sealed.failure === null ? null : part.waitsFor,
      stream: { accountId, mode, kind },
      factIds: ids,
      askingSince: isDoubted ? doubtedUntil : null,
    });
    if (sealed.state === "pending" && !isDoubted) {
      return { events, sealing: null };
    }
  }
  // Not even the oldest second is skipped: it may have more units than fit into one event.
  const [oldest] = parts;
  return { events, sealing: oldest ? { kind: "more", second: oldest.second } : NONE };
};

/** Seals the oldest seconds' facts of streams without a pending event, until each has one to send or enough is sealed. */
const sealNewEvents = async (
  { billing }: BillingContext,
  transaction: DatabaseTransactionConnection,
  { doubtedFactId, doubtedUntil }: Deployment,
  streams: readonly BilledStream[],
  now: Date,
): Promise<Sealings> => {
  const results: Sealings = new Map();
  let open = streams;
  let sealed = 0;
  for (let facts = 1; open.length > 0 && sealed < ENOUGH_FACTS; facts *= FACTS_GROWTH) {
    const range = { lastSecond: lastSealableSecond(now), facts, doubtedFactId };
    const parts = await listOldestUnsealedFacts(transaction, open, range);
    const next: BilledStream[] = [];
    const events: SealedEvent[] = [];
    for (const [index, stream] of open.entries()) {
      const decision = decideEvents(billing, stream, parts[index] ?? [], doubtedUntil);
      events.push(...decision.events);
      results.set(ownerKey(stream), decision.sealing ?? NONE);
      if (decision.sealing?.kind === "more") {
        next.push({ ...stream, firstSecond: decision.sealing.second });
      }
    }
    const inserted = events.length === 0 ? [] : await insertMeterEvents(transaction, events, now);
    for (const event of inserted) {
      if (event.state === "pending" && event.askingSince === null) {
        results.set(ownerKey(event), { kind: "event", event });
      }
    }
    sealed += events.reduce((sum, { factIds }) => sum + factIds.length, 0);
    open = next;
  }
  return results;
};

const sealLocked = async (
  context: BillingContext,
  transaction: DatabaseTransactionConnection,
  deployment: Deployment,
  streams: readonly UnsentStream[],
  now: Date,
): Promise<Sealings> => {
  const { billing } = context;
  const accountIds = new Set(streams.map(({ accountId }) => accountId));
  const customerIds = await listStripeCustomerIds(transaction, [...accountIds]);
  const pending = new Map(
    (await listNextEvents(transaction, streams, now)).map((event) => [ownerKey(event), event]),
  );
  const problem = findSealingProblem(deployment.processor, billing.stripe ? "stripe" : "ledger");
  const results: Sealings = new Map();
  const resumed: bigint[] = [];
  const fresh: BilledStream[] = [];
  for (const stream of streams) {
    const stripeCustomerId = customerIds.get(stream.accountId) ?? null;
    const target = currentTarget(billing, stripeCustomerId, stream.mode);
    const key = ownerKey(stream);
    const current = pending.get(key);
    if (current) {
      if (lacksStripe(billing, current.processor)) {
        results.set(key, WITHOUT_STRIPE);
      } else if (current.isResumable) {
        resumed.push(current.id);
      }
    } else if (stream.mode === "live" && problem !== null && stripeCustomerId === null) {
      results.set(key, { kind: "waits", delay: misconfigured(problem) });
    } else {
      fresh.push({ ...stream, current: target });
    }
  }
  for (const event of resumed.length === 0 ? [] : await beginAttempts(transaction, resumed, now)) {
    results.set(ownerKey(event), { kind: "event", event });
  }
  return new Map([
    ...results,
    ...(await sealNewEvents(context, transaction, deployment, fresh, now)),
  ]);
};

/**
 * Begins the next attempt of each stream: of the pending event, if it is due, or else of the facts of the oldest second from its
 * first one on, which are sealed now. The attempts are recorded with their lease before they are made. Events that are not
 * sent are sealed along the way; if there are many, a later call goes on. A stream that another transaction has locked is
 * skipped.
 *
 * If Stripe is not configured, usage for Stripe waits, so that one worker without the key cannot fail it.
 * @returns the streams' results in their order
 */
export const sealMeterEvents = (
  context: BillingContext,
  streams: readonly UnsentStream[],
  now: Date,
): Promise<readonly Sealing[]> =>
  context.db.transaction(async (transaction) => {
    const locked = await tryLockStreams(transaction, streams);
    const deployment = await readDeployment(transaction);
    if (deployment.hold) {
      return streams.map(() => ({ kind: "held" }));
    }
    const results = await sealLocked(context, transaction, deployment, [...locked], now);
    return streams.map((stream) => results.get(ownerKey(stream)) ?? NONE);
  });
