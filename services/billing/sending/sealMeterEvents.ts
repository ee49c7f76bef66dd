import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { listStripeCustomerIds } from "../../../db/accounts/accounts.ts";
import type { SealedEvent, StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import { insertMeterEvents, listUnfinishedMeterEvents } from "../../../db/billing/meterEvents.ts";
import { lockStream, tryLockStreams } from "../../../db/billing/streams.ts";
import type { Deployment } from "../../../db/billing/deployment.ts";
import { readDeployment } from "../../../db/billing/deployment.ts";
import type { UnsealedPart } from "../../../db/billing/sending/unsealedFacts.ts";
import { listOldestUnsealedFacts } from "../../../db/billing/sending/unsealedFacts.ts";
import { describeHold, findHold, findSealingProblem } from "../../../domain/billing/deployment.ts";
import { stateAtSealing } from "../../../domain/billing/meterEvents.ts";
import type { ProcessorName, UsageStream } from "../../../domain/billing/usage.ts";
import { lastSealableSecond, streamKey } from "../../../domain/billing/usage.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";

/** What a sender must know of an event before it begins an attempt. */
export type UnfinishedEvent = Pick<StoredMeterEvent, "id" | "processor" | "state">;

/**
 * The event to send next. `none`: nothing is ready, or another transaction has locked the stream. `stripe_missing`: the usage
 * waits until Stripe is configured. `held`: nothing is sealed or sent until an operator ends the hold. `wrong_processor`:
 * this process must not seal the deployment's live usage.
 */
export type Sealing =
  | { readonly kind: "event"; readonly event: UnfinishedEvent }
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

/** A stream, and what decides where its usage is billed. */
type BilledStream = {
  readonly stream: UsageStream;
  readonly stripeCustomerId: string | null;
};

/** Seals the oldest seconds' facts of streams without an unfinished event, until each has an event to send. */
const sealNewEvents = async (
  { clock, billing }: Dependencies,
  transaction: DatabaseTransactionConnection,
  streams: readonly BilledStream[],
  mustWait: (of: BilledStream, processor: ProcessorName) => boolean,
): Promise<ReadonlyMap<UsageStream, Sealing>> => {
  const sealedAt = clock.now();
  const results = new Map<UsageStream, Sealing>();

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

  let open = streams;
  while (open.length > 0) {
    const partsOfStreams = await listOldestUnsealedFacts(
      transaction,
      open.map(({ stream, stripeCustomerId }) => {
        const processor = billing.processorFor({ stripeCustomerId }, stream.mode);
        return {
          ...stream,
          current: { processor, customerId: processor === "stripe" ? stripeCustomerId : null },
        };
      }),
      { first: 0, last: lastSealableSecond(sealedAt) },
    );
    const events = open.flatMap((billed, index) => decide(billed, partsOfStreams[index] ?? []));
    const inserted =
      events.length === 0 ? [] : await insertMeterEvents(transaction, events, sealedAt);
    for (const [index, id] of inserted.entries()) {
      const sealed = events[index];
      if (sealed?.state === "sealed") {
        const { processor, state } = sealed;
        results.set(sealed.stream, { kind: "event", event: { id, processor, state } });
      }
    }
    // Void and held events were sealed along the way: the next second follows.
    open = open.filter(
      ({ stream }, index) => (partsOfStreams[index]?.length ?? 0) > 0 && !results.has(stream),
    );
  }
  return results;
};

const sealLocked = async (
  deps: Dependencies,
  transaction: DatabaseTransactionConnection,
  deployment: Deployment,
  streams: readonly UsageStream[],
): Promise<ReadonlyMap<UsageStream, Sealing>> => {
  const { billing } = deps;
  const customerIds = await listStripeCustomerIds(transaction, [
    ...new Set(streams.map(({ accountId }) => accountId)),
  ]);
  const unfinished = new Map(
    (await listUnfinishedMeterEvents(transaction, streams)).map((event) => [
      streamKey(event),
      event,
    ]),
  );
  const problem = findSealingProblem(deployment.processor, billing.liveProcessor);
  const mustWait = ({ stream, stripeCustomerId }: BilledStream, processor: ProcessorName) =>
    stripeCustomerId !== null && billing.findProcessor(processor, stream.mode) === null;
  const results = new Map<UsageStream, Sealing>();
  const fresh: BilledStream[] = [];
  for (const stream of streams) {
    const billed = { stream, stripeCustomerId: customerIds.get(stream.accountId) ?? null };
    const event = unfinished.get(streamKey(stream));
    if (event) {
      results.set(
        stream,
        mustWait(billed, event.processor) ? { kind: "stripe_missing" } : { kind: "event", event },
      );
    } else if (stream.mode === "live" && problem !== null && billed.stripeCustomerId === null) {
      results.set(stream, { kind: "wrong_processor", problem });
    } else {
      fresh.push(billed);
    }
  }
  return new Map([...results, ...(await sealNewEvents(deps, transaction, fresh, mustWait))]);
};

/**
 * Returns each stream's event to send next: the unfinished one, or else the oldest second's facts, sealed now. Void and
 * held events are sealed along the way. A stream that another transaction has locked is skipped.
 *
 * If Stripe is not configured, the usage of an account with a Stripe customer waits, so that one worker without the key
 * cannot fail it. If the account has left Stripe, its events for Stripe are returned and fail when they are sent.
 * @param lock locks the streams and returns those that are locked
 * @returns the streams' results in their order
 */
const seal = (
  deps: Dependencies,
  streams: readonly UsageStream[],
  lock: (transaction: DatabaseTransactionConnection) => Promise<ReadonlySet<UsageStream>>,
): Promise<readonly Sealing[]> =>
  deps.db.transaction(async (transaction) => {
    const locked = await lock(transaction);
    const deployment = await readDeployment(transaction);
    const hold = findHold(deployment);
    if (hold) {
      return streams.map(() => ({ kind: "held", reason: describeHold(hold) }));
    }
    const results = await sealLocked(deps, transaction, deployment, [...locked]);
    return streams.map((stream) => results.get(stream) ?? NONE);
  });

/** Seals the usage of many streams in one transaction. A stream that another transaction has locked is skipped. */
export const sealMeterEvents = (
  deps: Dependencies,
  streams: readonly UsageStream[],
): Promise<readonly Sealing[]> =>
  seal(deps, streams, (transaction) => tryLockStreams(transaction, streams));

/** Seals the usage of one stream. Waits while another transaction has locked it. */
export const sealMeterEvent = async (deps: Dependencies, stream: UsageStream): Promise<Sealing> => {
  const [sealing = NONE] = await seal(deps, [stream], async (transaction) => {
    await lockStream(transaction, stream);
    return new Set([stream]);
  });
  return sealing;
};
