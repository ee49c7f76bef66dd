import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";

/** `sealed`: not attempted yet. `sending`: attempted, but not settled. */
export const UNFINISHED_STATES = ["sealed", "sending"] as const;

/**
 * States that need an operator.
 * - `rejected`: the processor refuses the event, and no attempt was accepted.
 * - `expired`: the event is older than the processor accepts.
 * - `blocked`: an attempt may have been accepted, and sending again could bill twice.
 */
export const FAILED_STATES = ["rejected", "expired", "blocked"] as const;
export type FailedState = (typeof FAILED_STATES)[number];

/**
 * - `delivered`: the processor has the usage.
 * - `void`: the facts add up to zero, so nothing is sent.
 * - `held`: a refund of usage that the processor does not have. It is sent only if that usage is retried,
 *   or settled after a restore.
 * - `superseded`: failed, or a refund of failed or waived usage, and its facts were released to be sealed again.
 * - `waived`: failed, and an operator decided that the usage is never sent.
 */
export const METER_EVENT_STATES = [
  ...UNFINISHED_STATES,
  "delivered",
  "void",
  "held",
  ...FAILED_STATES,
  "superseded",
  "waived",
] as const;
export type MeterEventState = (typeof METER_EVENT_STATES)[number];

/** What decisions about a stored event depend on. */
export type StoredState = {
  readonly state: MeterEventState;
  /** Whether an attempt may have been accepted although no response arrived, or the database has lost its record. */
  readonly outcomeUnknown: boolean;
};

export const isUnfinished = (state: MeterEventState): boolean =>
  UNFINISHED_STATES.some((unfinished) => unfinished === state);

export const isFailed = (state: MeterEventState): state is FailedState =>
  FAILED_STATES.some((failed) => failed === state);

/**
 * Returns the type of the event that clients receive for a change of a meter event's state, or null. Usage has recovered
 * when it is sealed again to be reported, or when the processor turns out to have it. Waived usage has not recovered, until
 * a retry reverses the waiver.
 */
export const usageEventOf = (
  before: MeterEventState,
  after: MeterEventState,
): "usage.failed" | "usage.recovered" | null => {
  if (isFailed(after)) {
    return isFailed(before) ? null : "usage.failed";
  }
  const wasUnreported = isFailed(before) || before === "waived";
  return wasUnreported && after !== "waived" ? "usage.recovered" : null;
};

/** Returns the first state of a meter event. `held` facts are refunds of usage that the processor does not have. */
export const stateAtSealing = ({
  held,
  quantity,
}: {
  readonly held: boolean;
  readonly quantity: bigint;
}): "sealed" | "void" | "held" => {
  if (held) {
    return "held";
  }
  return quantity === 0n ? "void" : "sealed";
};

/**
 * The groups of meter events that operators list.
 * - `late`: delivered after the billing period ended.
 * - `held`: refunds that wait for a retry of their usage, or are never sent.
 * - `uncredited`: those of them whose usage was settled by hand or waived. If it was billed by hand, the customer is owed
 *   a credit note.
 */
export const USAGE_STATES = [
  "pending",
  "delivered",
  "failed",
  "waived",
  "late",
  "held",
  "uncredited",
] as const;
export type UsageState = (typeof USAGE_STATES)[number];

/** The `last_error` of usage that was delivered after the invoice of its period may have been finalized. */
export const DELIVERED_LATE = "delivered after its billing period ended; may not be on any invoice";

/** The time after a period's end in which Stripe still adds usage to its invoice, unless configured otherwise. */
export const DEFAULT_GRACE_MS = HOUR_MS;

/** The most events that a message names. */
const MAXIMUM_NAMED = 20;

/** Returns meter events for a message, such as "meter events 17, 21". */
export const namedEvents = (ids: readonly string[]): string => {
  const noun = ids.length === 1 ? "meter event" : "meter events";
  const others = ids.length - MAXIMUM_NAMED;
  const rest = others > 0 ? `, and ${counted(others, "other")}` : "";
  return `${noun} ${ids.slice(0, MAXIMUM_NAMED).join(", ")}${rest}`;
};
