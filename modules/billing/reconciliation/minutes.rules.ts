import { counted } from "../../../runtime/counted.rules.ts";
import type { StoredMeterEvent } from "../meterEvents.rules.ts";
import { LONGEST_USAGE_LAG_MS } from "../usage.rules.ts";

/*
 * The processor reports sums of whole minutes. From the sum of a minute follows which of the events that it may have it has.
 * Whatever is concluded of a single event, the sum is right afterwards: what counts as delivered is what the processor has, but
 * for a difference.
 */

/** Returns whether the processor's sums decide about an event. */
export const isAskedAbout = ({ state, askingSince, mayBeDelivered }: StoredMeterEvent): boolean =>
  state === "pending" ? askingSince !== null : state === "failed" && mayBeDelivered;

const isBeingSent = ({ state, firstAttemptAt, askingSince }: StoredMeterEvent): boolean =>
  state === "pending" && firstAttemptAt !== null && askingSince === null;

/** Why a minute's sum proves nothing yet, and when to ask again. */
export type Obstacle = { readonly reason: string; readonly afterMs: number };

const ASK_AGAIN_MS = 15_000;

/**
 * Returns why the processor's sum of a minute proves nothing yet, or null. While an event is being sent, the sum may or may not
 * have it. Later the sum lags.
 * @param events all events of the minute at the customers that are asked
 */
export const findObstacle = (events: readonly StoredMeterEvent[], now: Date): Obstacle | null => {
  if (events.some(isBeingSent)) {
    return { reason: "another event of that minute is being sent", afterMs: ASK_AGAIN_MS };
  }
  const lastSentMs = Math.max(
    ...events
      .filter((event) => event.state === "delivered" || isAskedAbout(event))
      .map(({ askingSince, settledAt }) => (askingSince ?? settledAt)?.getTime() ?? 0),
  );
  const completeMs = lastSentMs + LONGEST_USAGE_LAG_MS;
  const lagMs = completeMs - now.getTime();
  return lagMs > 0
    ? {
        // A time rather than a duration, because it is recorded and shown later.
        reason: `the processor's sums may lag until ${new Date(completeMs).toISOString().slice(0, 19)}Z`,
        afterMs: lagMs,
      }
    : null;
};

/** What the sums show of an event. Of one that is delivered, the processor may have only some units: the rest is a difference. */
export type Answer =
  | { readonly kind: "delivered"; readonly customerId: string | null; readonly units: number }
  | { readonly kind: "absent" }
  | { readonly kind: "unclear"; readonly reason: string };

/** A customer's events of a minute, and the processor's units in it, or why it does not report them. */
export type CustomerMinute = {
  readonly customerId: string | null;
  readonly events: readonly StoredMeterEvent[];
  readonly theirs: number | { readonly unreadable: string };
};

/** Usage before refunds, and the first events first. */
const inOrder = (a: StoredMeterEvent, b: StoredMeterEvent): number =>
  Math.sign(b.quantity) - Math.sign(a.quantity) || Number(a.id - b.id);

/** Returns the part of a quantity that units can be: those of the same sign, up to the quantity. */
const shareOf = (quantity: number, units: number): number =>
  Math.sign(quantity) === Math.sign(units)
    ? Math.sign(quantity) * Math.min(Math.abs(quantity), Math.abs(units))
    : 0;

const sumDelivered = (events: readonly StoredMeterEvent[]): number =>
  events.reduce((sum, { state, quantity }) => (state === "delivered" ? sum + quantity : sum), 0);

/** Compares the processor's units of a minute with the events: by how many they differ, and what may still explain that. */
export const compareMinute = (events: readonly StoredMeterEvent[], theirs: number, now: Date) => ({
  units: theirs - sumDelivered(events),
  obstacle: findObstacle(events, now),
  asked: events.filter(isAskedAbout),
});

/** Allots the units that no delivered event explains to a customer's events that are asked about. */
const allot = ({ events, theirs }: CustomerMinute) => {
  let rest = typeof theirs === "number" ? theirs - sumDelivered(events) : 0;
  const shares = events
    .filter(isAskedAbout)
    .toSorted(inOrder)
    .map((event) => {
      const share = shareOf(event.quantity, rest);
      rest -= share;
      return { event, share };
    });
  return { shares, rest };
};

/**
 * Decides about an event from its own customer's share and what other customers have that no event of theirs explains. Only
 * usage can be at another customer: a refund goes to the customer of its usage.
 */
const answerOf = (
  { quantity, customerId }: StoredMeterEvent,
  share: number,
  others: readonly { readonly customerId: string | null; readonly rest: number }[],
): Answer => {
  const possible = others.filter(({ rest }) => quantity > 0 && rest > 0);
  const [only, ...more] = possible;
  if (share === quantity || (share !== 0 && only === undefined)) {
    return { kind: "delivered", customerId, units: share };
  }
  if (only === undefined) {
    return { kind: "absent" };
  }
  if (share === 0 && more.length === 0 && only.rest >= quantity) {
    return { kind: "delivered", customerId: only.customerId, units: quantity };
  }
  const places = [...(share === 0 ? [] : [{ customerId, rest: share }]), ...possible].map(
    (place) =>
      `${counted(place.rest, "unit")}${place.customerId === null ? "" : ` at ${place.customerId}`}`,
  );
  return {
    kind: "unclear",
    reason: `no other usage explains ${places.join(" and ")}, and this event has ${quantity}`,
  };
};

/**
 * Decides which of a customer's events in a minute the processor has.
 * @param own the customer that is asked first
 * @param others the customers that may have usage of its accounts instead, and the accounts
 */
export const decideMinute = (
  own: CustomerMinute,
  others: readonly (CustomerMinute & { readonly accountIds: readonly string[] })[],
): ReadonlyMap<bigint, Answer> => {
  const places = others.map((other) => ({ ...other, rest: allot(other).rest }));
  const answers = new Map<bigint, Answer>();
  for (const { event, share } of allot(own).shares) {
    const possible = places.filter(({ accountIds }) => accountIds.includes(event.accountId));
    const unreadable = [
      // A customer that the processor has refused is often one that it does not know any more.
      ...(event.failure === "refused" ? [] : [own]),
      ...(event.quantity > 0 ? possible : []),
    ]
      .map(({ theirs }) => theirs)
      .find((theirs) => typeof theirs !== "number");
    const answer: Answer =
      unreadable !== undefined && share !== event.quantity
        ? {
            kind: "unclear",
            reason: `the processor does not report its usage: ${unreadable.unreadable}`,
          }
        : answerOf(event, share, possible);
    answers.set(event.id, answer);
    for (const place of places) {
      // Units are found in one event only.
      if (answer.kind === "delivered" && answer.customerId === place.customerId) {
        place.rest -= event.quantity;
      }
    }
  }
  return answers;
};
