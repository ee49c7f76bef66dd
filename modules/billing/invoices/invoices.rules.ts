import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import type { Span } from "../usage.rules.ts";

/*
 * Which invoice has which usage, and why some usage is on none. Times are unix seconds.
 */

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

/** What can be wrong between delivered usage and invoices. `differs` and `twice` are of usage that is on an invoice. */
export const INVOICE_PROBLEMS = [...UNINVOICED_REASONS, "differs", "twice"] as const;
export type InvoiceProblem = (typeof INVOICE_PROBLEMS)[number];

/** A trial is meant to cost nothing. */
export const isFree = (problem: InvoiceProblem): boolean => problem === "trial";

/** Whether an operator has to act. A customer without a subscription is a setting, so it is only named. */
export const needsOperator = (problem: InvoiceProblem): boolean =>
  !isFree(problem) && problem !== "no_subscription";

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

type Charge = "charged" | "waiting" | UninvoicedReason;

const chargeOf = (
  line: InvoiceLine,
  subscriptions: readonly BilledSubscription[],
  now: number,
): Charge => {
  const { status, autoAdvance, abandonedAt, createdAt, finalizedAt, subscriptionId } = line;
  const trial = subscriptions.find(({ id }) => id === subscriptionId)?.trial ?? null;
  if (trial !== null && contains(trial, line)) {
    return "trial";
  }
  const isPaused =
    abandonedAt !== null && abandonedAt - (finalizedAt ?? createdAt) <= PAUSE_SECONDS;
  switch (status) {
    case "draft":
      if (!autoAdvance) {
        return "paused_keep_as_draft";
      }
      return now < createdAt + DRAFT_MARGIN ? "waiting" : "draft";
    case "void":
      return isPaused ? "paused_void" : "voided";
    case "uncollectible":
      return isPaused ? "paused_mark_uncollectible" : "charged";
    default:
      return "charged";
  }
};

/** A span of usage of one kind: a line to compare with what was delivered, or a problem. */
export type Explanation = Span & {
  readonly kind: Kind;
  readonly subscriptionId: string | null;
  /** The subscription that bills the same usage as well. */
  readonly otherSubscriptionId?: string;
  readonly line?: InvoiceLine;
  /** Null: the line is to be compared. */
  readonly problem: InvoiceProblem | null;
};

type CustomerBilling = {
  readonly subscriptions: readonly BilledSubscription[];
  readonly lines: readonly InvoiceLine[];
};

type Verdict = "fine" | "waiting" | Omit<Explanation, keyof Span | "kind">;

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

/** Explains usage of a running subscription that no line has. */
const explainMissing = (
  { id, endedAt, endedEarly, openSince, trial }: BilledSubscription,
  kind: Kind,
  part: Span,
  now: number,
): Verdict => {
  if (trial !== null && contains(trial, part)) {
    return { problem: "trial", subscriptionId: id };
  }
  const since = openSince[kind];
  if (endedAt !== null && (since === null || part.start >= since)) {
    return endedEarly || now >= endedAt + INVOICE_MARGIN
      ? { problem: "ended", subscriptionId: id }
      : "waiting";
  }
  const dueSince = endedAt ?? since;
  return dueSince === null || part.start >= dueSince || now < dueSince + INVOICE_MARGIN
    ? "waiting"
    : { problem: "no_invoice", subscriptionId: id };
};

const explainPart = (
  { subscriptions, lines }: CustomerBilling,
  kind: Kind,
  part: Span,
  now: number,
): Verdict => {
  const covering = lines
    .filter((line) => line.kind === kind && contains(line, part))
    .map((line) => ({ line, charge: chargeOf(line, subscriptions, now) }));
  const running = subscriptions.filter(
    ({ startedAt, endedAt }) => startedAt <= part.start && part.end <= (endedAt ?? part.end),
  );
  const withoutLine = running.filter(
    ({ id, kinds }) =>
      kinds.includes(kind) && !covering.some(({ line }) => line.subscriptionId === id),
  );
  const missing = withoutLine.map((subscription) => explainMissing(subscription, kind, part, now));
  const opening = withoutLine.filter(
    ({ endedAt, openSince, pausedBy }, at) =>
      missing[at] === "waiting" &&
      endedAt === null &&
      pausedBy === null &&
      part.start >= (openSince[kind] ?? part.end),
  );
  const [first, second] = [
    ...covering
      .filter(({ charge }) => charge === "charged" || charge === "waiting")
      .map(({ line }) => ({ id: line.subscriptionId, line })),
    ...opening.map(({ id }) => ({ id, line: undefined })),
  ];
  if (first && second) {
    const line = second.line ?? first.line;
    return {
      problem: "twice",
      subscriptionId: first.id,
      otherSubscriptionId: second.id,
      ...(line ? { line } : {}),
    };
  }
  const isDue = !missing.includes("waiting");
  if (first) {
    // Another subscription may still bill it as well.
    const isFinal = isDue && covering.every(({ line }) => line.status !== "draft");
    return isFinal ? "fine" : "waiting";
  }
  if (!isDue) {
    return "waiting";
  }
  const [unpaid] = covering;
  if (unpaid && unpaid.charge !== "charged" && unpaid.charge !== "waiting") {
    const { charge, line } = unpaid;
    return { problem: charge, subscriptionId: line.subscriptionId, line };
  }
  return (
    missing[0] ??
    (running[0]
      ? { problem: "unpriced", subscriptionId: running[0].id }
      : explainOutside(subscriptions, part))
  );
};

/** Splits a span wherever a line, a subscription, a trial or a current period begins or ends. */
const splitSpan = (
  { subscriptions, lines }: CustomerBilling,
  kind: Kind,
  { start, end }: Span,
): readonly Span[] => {
  const times = [
    ...lines.flatMap((line) => (line.kind === kind ? [line.start, line.end] : [])),
    ...subscriptions.flatMap(({ startedAt, endedAt, trial, openSince }) => [
      startedAt,
      endedAt,
      trial?.start,
      trial?.end,
      openSince[kind],
    ]),
  ].filter((time): time is number => typeof time === "number" && time > start && time < end);
  const starts = [start, ...new Set(times.toSorted((a, b) => a - b))];
  return starts.map((from, at) => ({ start: from, end: starts[at + 1] ?? end }));
};

/** Explains a customer's usage in a span: which lines are to be compared, and which usage is on no invoice or on two. */
export const explainUsage = (
  billing: CustomerBilling,
  span: Span,
  now: number,
): readonly Explanation[] => {
  const explanations = billing.lines
    .filter(
      (line) => line.end > span.start && chargeOf(line, billing.subscriptions, now) === "charged",
    )
    .map((line): Explanation => {
      const { start, end, kind, subscriptionId } = line;
      return { start, end, kind, subscriptionId, line, problem: null };
    });
  for (const kind of KINDS) {
    for (const part of splitSpan(billing, kind, span)) {
      const verdict = explainPart(billing, kind, part, now);
      if (typeof verdict === "object") {
        explanations.push({ ...part, ...verdict, kind });
      }
    }
  }
  return explanations;
};

/** What was delivered in a span. `lateAdded` and `lateRefunded` (0 or below) are the parts after the line was finalized. */
export type DeliveredUsage = {
  readonly delivered: number;
  readonly lateAdded: number;
  readonly lateRefunded: number;
};

/** A compared span. `units` are those on no invoice, or on two; negative if an invoice has too many. */
export type ComparedUsage = Explanation & {
  readonly delivered: number;
  readonly units: number;
};

/** Returns the result of an explanation; null if there is nothing to say, because there was no usage. */
export const compareUsage = (
  explanation: Explanation,
  { delivered, lateAdded, lateRefunded }: DeliveredUsage,
): ComparedUsage | null => {
  const { line, problem } = explanation;
  const quantity = line?.quantity ?? 0;
  if (delivered === 0 && (problem !== null || quantity === 0)) {
    return null;
  }
  if (problem !== null) {
    return { ...explanation, delivered, units: delivered };
  }
  if (quantity === Math.max(0, delivered)) {
    return { ...explanation, delivered, units: 0 };
  }
  const isLate =
    quantity >= Math.max(0, delivered - lateAdded) &&
    quantity <= Math.max(0, delivered - lateRefunded);
  return {
    ...explanation,
    problem: isLate ? "late" : "differs",
    delivered,
    units: delivered - quantity,
  };
};
