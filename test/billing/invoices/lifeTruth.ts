import type { UninvoicedReason } from "../../../modules/billing/invoices/invoices.rules.ts";
import type { AcceptedEvent } from "../../stripeDouble/state.ts";
import { addMonths } from "../../stripeDouble/invoices.ts";

/*
 * What Stripe should have invoiced, worked out from what happened in a life, and from nothing that the service stores.
 */

type Span = { readonly start: number; readonly end: number };

export type PauseBehavior = "void" | "mark_uncollectible" | "keep_as_draft";

/** What happened to a subscription. Times are unix seconds. */
export type SubscriptionLife = {
  readonly id: string;
  readonly start: number;
  trial: Span | null;
  end: number | null;
  /** Whether its last, incomplete period was invoiced. */
  invoicedAtEnd: boolean;
  readonly pauses: {
    readonly from: number;
    until: number | null;
    readonly behavior: PauseBehavior;
  }[];
};

const GRACE = 3600;

/** Returns the end of a subscription's period, as it would be if the subscription went on. */
export const endOfPeriod = ({ start, trial }: SubscriptionLife, second: number): number => {
  if (trial && trial.start <= second && second < trial.end) {
    return trial.end;
  }
  const anchor = trial && trial.end <= second ? trial.end : start;
  let months = 1;
  while (addMonths(anchor, months) <= second) {
    months += 1;
  }
  const end = addMonths(anchor, months);
  return trial && anchor === start ? Math.min(end, trial.start) : end;
};

type Unit = Pick<AcceptedEvent, "second" | "receivedAt">;

/** What a subscription does with a unit. An open period has no invoice yet, and an invoice that waits is not final. */
type Claim = "invoiced" | "late" | "waiting" | "open" | UninvoicedReason;

/** Returns what one subscription does with a unit; null if it did not run then. */
const claimOf = (
  life: SubscriptionLife,
  { second, receivedAt }: Unit,
  now: number,
): Claim | null => {
  const { start, trial, end: lastSecond, invoicedAtEnd, pauses } = life;
  if (second < start || (lastSecond !== null && second >= lastSecond)) {
    return null;
  }
  if (trial && trial.start <= second && second < trial.end) {
    return "trial";
  }
  const whole = endOfPeriod(life, second);
  const end = Math.min(whole, lastSecond ?? whole);
  if (end > now) {
    return "open";
  }
  if (end < whole && !invoicedAtEnd) {
    return "ended";
  }
  const pause = pauses.find(({ from, until }) => from <= end && (until === null || until >= end));
  if (pause) {
    return `paused_${pause.behavior}`;
  }
  if (now < end + GRACE) {
    return "waiting";
  }
  return receivedAt <= end + GRACE ? "invoiced" : "late";
};

const isPausedNow = ({ pauses, end }: SubscriptionLife, now: number): boolean =>
  (end ?? now + 1) > now && pauses.some(({ until }) => until === null);

/** What the comparison should find of a unit: one of these. `payers`: the subscriptions that bill it. */
export type Fate = {
  readonly found: readonly (Claim | "twice")[];
  readonly payers: readonly string[];
};

const PAYING: ReadonlySet<Claim> = new Set(["invoiced", "late", "waiting", "open"]);

/** Returns what became of a unit at a time, if the customer has had these subscriptions. */
export const fateOf = (lives: readonly SubscriptionLife[], unit: Unit, now: number): Fate => {
  const claims = lives.flatMap((life) => {
    const claim = claimOf(life, unit, now);
    return claim === null ? [] : { life, claim };
  });
  // A pause decides only when the period ends, but a paused subscription is no second payer.
  const paying = claims.filter(
    ({ life, claim }) => PAYING.has(claim) && !(claim === "open" && isPausedNow(life, now)),
  );
  const payers = paying.map(({ life }) => life.id);
  if (payers.length > 1) {
    return { found: ["twice"], payers };
  }
  const found = (paying.length > 0 ? paying : claims).map(({ claim }) => claim);
  if (found.includes("open")) {
    return { found: ["waiting"], payers };
  }
  if (found.length > 0) {
    return { found, payers };
  }
  const hasEnded = lives.some(({ end }) => end !== null && end <= unit.second);
  return { found: hasEnded ? ["after_end"] : ["before_subscription", "no_subscription"], payers };
};
