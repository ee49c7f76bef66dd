import { ownerKey } from "../../records/owner.rules.ts";
import { listStripeCustomerIds } from "../../accounts/accounts.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.rules.ts";
import type { BilledStream, SealedEvent, UnsealedPart } from "./sealMeterEvents.sql.ts";
import { insertMeterEvents, listOldestUnsealedFacts } from "./sealMeterEvents.sql.ts";
import { tryLockStreams } from "../streams.sql.ts";
import { beginAttempts } from "./attempts.sql.ts";
import { listNextEvents } from "./waitingStreams.sql.ts";
import type { UnsentStream } from "./waitingStreams.sql.ts";
import { readDeployment } from "../deployment.sql.ts";
import { findSealingProblem } from "../deployment.rules.ts";
import { misconfigured, stateAtSealing, STRIPE_MISSING } from "./decideNextStep.rules.ts";
import type { Delay } from "./decideNextStep.rules.ts";
import type { ProcessorName } from "../usage.rules.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import type { Billing } from "../createBilling.ts";
import type { BillingContext } from "../context.ts";

/**
 * `event`: its next attempt has begun. `none`: nothing is ready, usage is held, or another transaction has locked the stream.
 * `more`: events that are not sent were sealed, and more may be left. `waits`: this process is not set up for the usage.
 */
export type Sealing =
  | { readonly kind: "event"; readonly event: StoredMeterEvent }
  | { readonly kind: "none" }
  | { readonly kind: "more"; readonly stream: UnsentStream }
  | { readonly kind: "waits"; readonly delay: Delay };

const NONE: Sealing = { kind: "none" };

/** In a process without Stripe's key, usage for Stripe waits, so that it cannot fail there. */
const WITHOUT_STRIPE: Sealing = { kind: "waits", delay: misconfigured(STRIPE_MISSING) };

const lacksStripe = ({ stripe }: Billing, processor: ProcessorName): boolean =>
  processor === "stripe" && stripe === null;

/**
 * Decides on the groups of facts of a stream's oldest seconds, up to the first event that is sent. Those about which the
 * processor is asked first keep no other from being sent.
 * @returns the events to seal, and the result of the stream unless the last of them is sent
 */
const decideEvents = (
  billing: Billing,
  { current: _current, ...stream }: BilledStream,
  parts: readonly UnsealedPart[],
  doubtedUntil: Date | null,
): { readonly events: readonly SealedEvent[]; readonly sealing: Sealing } => {
  const events: SealedEvent[] = [];
  for (const part of parts) {
    const sealed = stateAtSealing(part);
    if (sealed.state === "pending" && lacksStripe(billing, part.processor)) {
      return { events, sealing: WITHOUT_STRIPE };
    }
    const waitsFor = sealed.failure === null ? null : part.waitsFor;
    const askingSince = part.isDoubted ? doubtedUntil : null;
    events.push({ ...stream, ...part, ...sealed, waitsFor, askingSince });
    if (sealed.state === "pending" && !part.isDoubted) {
      return { events, sealing: NONE };
    }
  }
  const last = parts.at(-1);
  return {
    events,
    sealing: last
      ? { kind: "more", stream: { ...stream, firstSecond: last.second, hasUnsent: true } }
      : NONE,
  };
};

/**
 * Begins the next attempt of each stream: of the pending event, if it is due, or else of the facts of the oldest second
 * from its first one on, which are sealed now. The attempts are recorded with their lease before they are made. Events that
 * are not sent are sealed along the way.
 * @returns the streams' results in their order
 */
export const sealMeterEvents = (
  { db, billing }: BillingContext,
  streams: readonly UnsentStream[],
  now: Date,
): Promise<readonly Sealing[]> =>
  db.transaction(async (transaction) => {
    const locked = await tryLockStreams(transaction, streams);
    const { hold, processor, doubtedFactId, doubtedUntil } = await readDeployment(transaction);
    if (hold) {
      return streams.map(() => NONE);
    }
    const accountIds = new Set(locked.map(({ accountId }) => accountId));
    const customerIds = await listStripeCustomerIds(transaction, [...accountIds]);
    const pending = new Map(
      (await listNextEvents(transaction, locked, now)).map((event) => [ownerKey(event), event]),
    );
    const problem = findSealingProblem(processor, billing.stripe ? "stripe" : "ledger");
    const results = new Map<string, Sealing>();
    const resumed: bigint[] = [];
    const fresh: BilledStream[] = [];
    for (const stream of locked) {
      const stripeCustomerId = customerIds.get(stream.accountId) ?? null;
      const key = ownerKey(stream);
      const event = pending.get(key);
      if (event && lacksStripe(billing, event.processor)) {
        results.set(key, WITHOUT_STRIPE);
      } else if (event) {
        resumed.push(...(event.isResumable ? [event.id] : []));
      } else if (stream.mode === "live" && problem !== null && stripeCustomerId === null) {
        results.set(key, { kind: "waits", delay: misconfigured(problem) });
      } else {
        fresh.push({ ...stream, current: billing.targetFor({ stripeCustomerId }, stream.mode) });
      }
    }
    const lastSecond = lastSealableSecond(now);
    const parts = await listOldestUnsealedFacts(transaction, fresh, { lastSecond, doubtedFactId });
    const sealed = fresh.flatMap((stream, index) => {
      const { events, sealing } = decideEvents(billing, stream, parts[index] ?? [], doubtedUntil);
      results.set(ownerKey(stream), sealing);
      return events;
    });
    const begun = [
      ...(await beginAttempts(transaction, resumed, now)),
      ...(await insertMeterEvents(transaction, sealed, now)),
    ];
    for (const event of begun) {
      if (event.leasedUntil !== null) {
        results.set(ownerKey(event), { kind: "event", event });
      }
    }
    return streams.map((stream) => results.get(ownerKey(stream)) ?? NONE);
  });
