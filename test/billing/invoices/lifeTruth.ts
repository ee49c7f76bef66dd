import type { UninvoicedReason } from "../../../modules/billing/invoices/invoices.rules.ts";
import type { AcceptedEvent } from "../../stripeDouble/state.ts";

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

/** What became of a unit. */
export type Fate =
  | { readonly kind: "invoiced"; readonly subscriptionId: string }
  /** Its invoice was finalized before it arrived. */
  | { readonly kind: "late"; readonly subscriptionId: string }
  | { readonly kind: "waiting" }
  | { readonly kind: "twice"; readonly subscriptionIds: readonly string[] }
  | { readonly kind: "uninvoiced"; readonly reasons: readonly UninvoicedReason[] };

const addMonths = (anchor: number, months: number): number => {
  const date = new Date(anchor * 1000);
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + months);
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(day, last));
  return date.getTime() / 1000;
};

type LifePeriod = Span & { readonly isTrial: boolean; readonly isWhole: boolean };

const periodsOf = ({ start, trial, end }: SubscriptionLife, now: number): readonly LifePeriod[] => {
  const limit = end ?? now + 1;
  const periods: LifePeriod[] = [];
  const add = (from: number, to: number, isTrial: boolean): void => {
    if (from < Math.min(to, limit)) {
      periods.push({ start: from, end: Math.min(to, limit), isTrial, isWhole: to <= limit });
    }
  };
  const addMonthly = (anchor: number, until: number): void => {
    for (let month = 0; addMonths(anchor, month) < Math.min(until, limit); month += 1) {
      add(addMonths(anchor, month), Math.min(addMonths(anchor, month + 1), until), false);
    }
  };
  addMonthly(start, trial?.start ?? Number.POSITIVE_INFINITY);
  if (trial) {
    add(trial.start, trial.end, true);
    addMonthly(trial.end, Number.POSITIVE_INFINITY);
  }
  return periods;
};

type Claim = { readonly kind: "invoiced" | "late" | "waiting" | "open" } | UninvoicedReason;

/** What one subscription does with a unit; null if it did not run then. */
const claimOf = (
  life: SubscriptionLife,
  { second, receivedAt }: Pick<AcceptedEvent, "second" | "receivedAt">,
  now: number,
): Claim | null => {
  const period = periodsOf(life, now).find(({ start, end }) => start <= second && second < end);
  if (!period) {
    return null;
  }
  if (period.isTrial) {
    return "trial";
  }
  if (life.end === null ? !period.isWhole : period.end > now) {
    return { kind: "open" };
  }
  if (!period.isWhole && !life.invoicedAtEnd) {
    return "ended";
  }
  const pause = life.pauses.find(
    ({ from, until }) => from <= period.end && (until === null || until >= period.end),
  );
  if (pause) {
    return `paused_${pause.behavior}`;
  }
  if (now < period.end + GRACE) {
    return { kind: "waiting" };
  }
  return { kind: receivedAt <= period.end + GRACE ? "invoiced" : "late" };
};

const isPausedNow = ({ pauses, end }: SubscriptionLife, now: number): boolean =>
  (end ?? now + 1) > now && pauses.some(({ until }) => until === null);

/** Returns what became of a unit at a time, if the customer has had these subscriptions. */
export const fateOf = (
  lives: readonly SubscriptionLife[],
  event: Pick<AcceptedEvent, "second" | "receivedAt">,
  now: number,
): Fate => {
  const claims = lives.flatMap((life) => {
    const claim = claimOf(life, event, now);
    return claim === null ? [] : [{ life, claim }];
  });
  const payers = claims.filter(
    ({ life, claim }) =>
      // A pause decides only when the period ends, but a paused subscription is no second payer.
      typeof claim !== "string" && !(claim.kind === "open" && isPausedNow(life, now)),
  );
  if (payers.length > 1) {
    return { kind: "twice", subscriptionIds: payers.map(({ life }) => life.id) };
  }
  const [payer] = payers;
  if (payer && typeof payer.claim !== "string") {
    const { kind } = payer.claim;
    return kind === "waiting" || kind === "open"
      ? { kind: "waiting" }
      : { kind, subscriptionId: payer.life.id };
  }
  const reasons = claims.flatMap(({ claim }) => (typeof claim === "string" ? [claim] : []));
  if (claims.length > reasons.length) {
    return { kind: "waiting" };
  }
  if (reasons.length > 0) {
    return { kind: "uninvoiced", reasons };
  }
  return {
    kind: "uninvoiced",
    reasons: lives.some(({ end }) => end !== null && end <= event.second)
      ? ["after_end"]
      : ["before_subscription", "no_subscription"],
  };
};
