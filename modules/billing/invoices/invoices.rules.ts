import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import { splitAt } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";

/* Which invoice has which usage, and why some usage is on none. Times are unix seconds. */

/** A subscription of a customer, as Stripe returned it. */
export type BilledSubscription = {
  readonly id: string;
  /** The kinds whose meter it has a price for. */
  readonly kinds: readonly Kind[];
  readonly startedAt: number;
  readonly endedAt: number | null;
  /** Whether it ended inside a period, so that an invoice of that period was created with the end or never. */
  readonly endedEarly: boolean;
  readonly trial: Span | null;
  readonly pausedBy: string | null;
  /** When the current period of each kind began; null without one. */
  readonly openSince: Readonly<Record<Kind, number | null>>;
};

/** The units of one price and period on an invoice. */
export type InvoiceLine = Span & {
  readonly kind: Kind;
  readonly subscriptionId: string;
  readonly invoiceId: string;
  /** Null for a draft. */
  readonly number: string | null;
  readonly status: string;
  readonly createdAt: number;
  /** Whether Stripe finalizes a draft by itself. */
  readonly autoAdvance: boolean;
  readonly finalizedAt: number | null;
  /** When it was voided or marked uncollectible. */
  readonly abandonedAt: number | null;
  readonly quantity: number;
};

/** Why usage is on no invoice that is to be paid. */
export const UNINVOICED_REASONS = [
  "trial",
  "paused_void",
  "paused_mark_uncollectible",
  "paused_keep_as_draft",
  "draft",
  "voided",
  "late",
  "no_invoice",
  "ended",
  "after_end",
  "before_subscription",
  "no_subscription",
  "unpriced",
] as const;
export type UninvoicedReason = (typeof UNINVOICED_REASONS)[number];

export const isUninvoiced = (reason: string | null): reason is UninvoicedReason =>
  UNINVOICED_REASONS.some((each) => each === reason);

/** What can be wrong between delivered usage and invoices. `differs` and `twice` are of usage that is on an invoice. */
export const INVOICE_PROBLEMS = [...UNINVOICED_REASONS, "differs", "twice"] as const;
export type InvoiceProblem = (typeof INVOICE_PROBLEMS)[number];

const HOUR = 3600;
const DAY = 24 * HOUR;

/** Stripe creates the draft when a period ends; this allows for an incident. */
const INVOICE_MARGIN = DAY;
/** Stripe's longest grace period, and the same margin. */
const DRAFT_MARGIN = 72 * HOUR + DAY;
/** A paused collection abandons an invoice as soon as it is final; a person takes longer. */
const PAUSE_SECONDS = 60;

/** How far back from the last comparison usage is compared. Older problems stay as they were last found. */
export const COMPARED_SECONDS = 100 * DAY;

const contains = (outer: Span, inner: Span): boolean =>
  outer.start <= inner.start && inner.end <= outer.end;

type Charge = "charged" | "expected" | "waiting" | UninvoicedReason;

/** What a subscription does about usage: it charges it, is going to, may do so, or why it does not. */
type Claim = {
  readonly subscriptionId: string;
  readonly charge: Charge;
  readonly line?: InvoiceLine;
};

const claimOfLine = (
  line: InvoiceLine,
  subscriptions: readonly BilledSubscription[],
  now: number,
): Claim => {
  const { status, autoAdvance, abandonedAt, createdAt, finalizedAt, subscriptionId } = line;
  const claim = (charge: Charge): Claim => ({ subscriptionId, charge, line });
  const trial = subscriptions.find(({ id }) => id === subscriptionId)?.trial ?? null;
  if (trial !== null && contains(trial, line)) {
    return claim("trial");
  }
  const isPaused =
    abandonedAt !== null && abandonedAt - (finalizedAt ?? createdAt) <= PAUSE_SECONDS;
  switch (status) {
    case "draft":
      if (!autoAdvance) {
        return claim("paused_keep_as_draft");
      }
      return claim(now < createdAt + DRAFT_MARGIN ? "expected" : "draft");
    case "void":
      return claim(isPaused ? "paused_void" : "voided");
    case "uncollectible":
      return claim(isPaused ? "paused_mark_uncollectible" : "charged");
    default:
      return claim("charged");
  }
};

/** Returns what a running subscription does about usage that none of its lines has. */
const chargeWithoutLine = (
  { endedAt, endedEarly, openSince, trial, pausedBy }: BilledSubscription,
  kind: Kind,
  part: Span,
  now: number,
): Charge => {
  if (trial !== null && contains(trial, part)) {
    return "trial";
  }
  const since = openSince[kind];
  const isOpen = since !== null && part.start >= since;
  if (endedAt !== null && (since === null || isOpen)) {
    return endedEarly || now >= endedAt + INVOICE_MARGIN ? "ended" : "waiting";
  }
  const dueSince = endedAt ?? since;
  if (dueSince !== null && part.start < dueSince && now >= dueSince + INVOICE_MARGIN) {
    return "no_invoice";
  }
  return isOpen && pausedBy === null ? "expected" : "waiting";
};

/** A span of usage of one kind: a line to compare with what was delivered, or a problem. */
export type Explanation = Span & {
  readonly kind: Kind;
  readonly subscriptionId: string | null;
  /** The subscription that bills the same usage as well. */
  readonly otherSubscriptionId?: string | null;
  readonly line?: InvoiceLine | undefined;
  /** Null: the line is to be compared. */
  readonly problem: InvoiceProblem | null;
};

type CustomerBilling = {
  readonly subscriptions: readonly BilledSubscription[];
  readonly lines: readonly InvoiceLine[];
};

type Verdict = Omit<Explanation, keyof Span | "kind">;

/** Explains usage that no line has and no subscription was running for. */
const explainOutside = (subscriptions: readonly BilledSubscription[], part: Span): Verdict => {
  const ended = subscriptions
    .filter(({ endedAt }) => endedAt !== null && endedAt <= part.start)
    .toSorted((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0))[0];
  if (ended) {
    return { problem: "after_end", subscriptionId: ended.id };
  }
  const next = subscriptions.find(({ startedAt }) => startedAt >= part.end);
  return next
    ? { problem: "before_subscription", subscriptionId: next.id }
    : { problem: "no_subscription", subscriptionId: null };
};

/** Returns what is wrong with a part of which no line or subscription has only a piece; null if nothing is, or not yet. */
const explainPart = (
  { subscriptions, lines }: CustomerBilling,
  kind: Kind,
  part: Span,
  now: number,
): Verdict | null => {
  const lined = lines
    .filter((line) => line.kind === kind && contains(line, part))
    .map((line) => claimOfLine(line, subscriptions, now));
  const running = subscriptions.filter(
    ({ startedAt, endedAt }) => startedAt <= part.start && part.end <= (endedAt ?? part.end),
  );
  const unlined = running.flatMap((subscription): Claim | readonly Claim[] => {
    const { id, kinds } = subscription;
    return kinds.includes(kind) && !lined.some((claim) => claim.subscriptionId === id)
      ? { subscriptionId: id, charge: chargeWithoutLine(subscription, kind, part, now) }
      : [];
  });
  const claims = [...lined, ...unlined];
  const [first, second] = claims.filter(
    ({ charge }) => charge === "charged" || charge === "expected",
  );
  if (first && second) {
    const [subscriptionId, otherSubscriptionId] = [first.subscriptionId, second.subscriptionId];
    const line = second.line ?? first.line;
    return { problem: "twice", subscriptionId, otherSubscriptionId, line };
  }
  if (first || claims.some(({ charge }) => charge === "waiting")) {
    return null;
  }
  for (const { charge, subscriptionId, line } of claims) {
    if (isUninvoiced(charge)) {
      return { problem: charge, subscriptionId, line };
    }
  }
  return running[0]
    ? { problem: "unpriced", subscriptionId: running[0].id }
    : explainOutside(subscriptions, part);
};

/** Splits a span wherever a line, a subscription, a trial or a current period begins or ends. */
const splitSpan = (
  { subscriptions, lines }: CustomerBilling,
  kind: Kind,
  span: Span,
): readonly Span[] =>
  splitAt(span, [
    ...lines.flatMap((line) => (line.kind === kind ? [line.start, line.end] : [])),
    ...subscriptions.flatMap(({ startedAt, endedAt, trial, openSince }) =>
      [startedAt, endedAt, trial?.start, trial?.end, openSince[kind]].flatMap((time) => time ?? []),
    ),
  ]);

/** Explains a customer's usage in a span: which lines are to be compared, and which usage is on no invoice or on two. */
export const explainUsage = (
  billing: CustomerBilling,
  span: Span,
  now: number,
): readonly Explanation[] => [
  ...billing.lines
    .filter(
      (line) =>
        line.end > span.start && claimOfLine(line, billing.subscriptions, now).charge === "charged",
    )
    .map((line): Explanation => {
      const { start, end, kind, subscriptionId } = line;
      return { start, end, kind, subscriptionId, line, problem: null };
    }),
  ...KINDS.flatMap((kind) =>
    splitSpan(billing, kind, span).flatMap((part) => {
      const verdict = explainPart(billing, kind, part, now);
      return verdict === null ? [] : Object.assign({ kind }, part, verdict);
    }),
  ),
];

/** A compared span. `units` are those on no invoice, or on two; negative if an invoice has too many. */
export type ComparedUsage = Omit<Explanation, "line"> & {
  readonly invoiceId: string | null;
  readonly invoiceNumber: string | null;
  readonly finalizedAt: number | null;
  readonly quantity: number | null;
  readonly delivered: number;
  readonly units: number;
};

/**
 * Returns the result of an explanation; null if there was no usage. `lateAdded` and `lateRefunded` (0 or below) are the parts
 * of what was delivered after the line was finalized.
 */
export const compareUsage = (
  { line, ...explanation }: Explanation,
  sums: Readonly<Record<"delivered" | "lateAdded" | "lateRefunded", number>>,
): ComparedUsage | null => {
  const { delivered, lateAdded, lateRefunded } = sums;
  const { problem } = explanation;
  const quantity = line?.quantity ?? 0;
  if (delivered === 0 && (problem !== null || quantity === 0)) {
    return null;
  }
  const compared = {
    ...explanation,
    invoiceId: line?.invoiceId ?? null,
    invoiceNumber: line?.number ?? null,
    finalizedAt: line?.finalizedAt ?? null,
    quantity: line?.quantity ?? null,
    delivered,
  };
  if (problem !== null || quantity === Math.max(0, delivered)) {
    return { ...compared, units: problem === null ? 0 : delivered };
  }
  const isLate =
    quantity >= Math.max(0, delivered - lateAdded) &&
    quantity <= Math.max(0, delivered - lateRefunded);
  return { ...compared, problem: isLate ? "late" : "differs", units: delivered - quantity };
};
