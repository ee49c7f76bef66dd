import type { AccountMode, Kind } from "../accounts/accounts.ts";

/** One account's usage of one meter in one mode: what one sender workflow reports, first in, first out. */
export type UsageStream = AccountMode & { readonly meter: Kind };

/**
 * The most units that one fact or one meter event may carry: Stripe takes at most 15 digits. The CHECK
 * usage_fact_quantity in db/migrations/0003_billing.sql holds facts to the same.
 */
export const MAXIMUM_QUANTITY = 999_999_999_999_999;

/** Unix seconds: the resolution in which usage is reported. */
export const secondOf = (instant: Date): number => Math.floor(instant.getTime() / 1000);

/**
 * How long after its end a second is sealed. A transaction that commits later than that is not lost: its facts make
 * another event of the same second.
 */
const SETTLING_SECONDS = 2;

/** The last second that may be sealed at an instant: it is over, and so is the time for late commits. */
export const lastSealableSecond = (now: Date): number => secondOf(now) - 1 - SETTLING_SECONDS;

/**
 * What the processor's names for the sealings of a second begin with; the number of the sealing follows. A name never
 * changes with attempts.
 */
export const meterEventIdentifierStem = (
  { accountId, mode, meter }: UsageStream,
  second: number,
): string => `u1:${accountId}:${mode}:${meter}:${second}:`;

/** Who bills. */
export const PROCESSORS = ["stripe", "ledger"] as const;
export type ProcessorName = (typeof PROCESSORS)[number];

/** `sealed`: on record, never attempted. `sending`: attempted, not settled. */
export const UNFINISHED_STATES = ["sealed", "sending"] as const;

/** Failed, for a person to look at. */
export const FAILED_STATES = ["rejected", "expired", "blocked"] as const;
export type FailedState = (typeof FAILED_STATES)[number];

/**
 * - `delivered`: the processor has it. `void`: its facts add up to nothing, so nothing is sent.
 * - `held`: takes back usage that the processor never accepted; sent only if that usage is retried.
 * - `superseded`: failed, and its facts were retried.
 * - `waived`: failed, and closed by a person: the processor does not have it and shall not get it.
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

export const isFailed = (state: MeterEventState): state is FailedState =>
  FAILED_STATES.some((failed) => failed === state);

/** What is noted of usage that was delivered so late that its period's invoice may have been finalized. */
export const DELIVERED_LATE =
  "delivered after its billing period had ended: it may be in no invoice";

/** How long Stripe takes usage of a period that is over, unless told otherwise; what comes sooner is not late. */
export const USUAL_GRACE_MS = 60 * 60 * 1000;

/** Stripe takes timestamps at most five minutes ahead. */
const ACCEPTED_LEAD_MS = 4 * 60 * 1000;

/**
 * Stripe knows an identifier again for 24 hours; after that a resend could count twice. Four hours of them are kept for
 * clocks that differ and for calls that are under way.
 */
const IDENTIFIER_TRUSTED_MS = 20 * 60 * 60 * 1000;

/**
 * What may be done with a meter event at an instant, from what is known of its earlier attempts.
 * @param acceptedAgeMs how old its usage may be for the processor, in milliseconds; null when it takes any
 */
export type SendDecision = "send" | "wait" | "expire" | "reconcile";

export const decideSend = (
  event: {
    readonly second: number;
    readonly firstAttemptAt: Date | null;
    readonly outcomeUnknown: boolean;
  },
  acceptedAgeMs: number | null,
  now: Date,
): SendDecision => {
  const ageMs = now.getTime() - event.second * 1000;
  const isTooOld = acceptedAgeMs !== null && ageMs > acceptedAgeMs;
  const attemptedLongAgo =
    event.firstAttemptAt !== null &&
    now.getTime() - event.firstAttemptAt.getTime() > IDENTIFIER_TRUSTED_MS;
  if (event.outcomeUnknown && (attemptedLongAgo || isTooOld)) {
    return "reconcile";
  }
  if (isTooOld) {
    return "expire";
  }
  return ageMs < -ACCEPTED_LEAD_MS ? "wait" : "send";
};
