import { z } from "zod";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../runtime/durations.rules.ts";
import { FAILING_DAYS } from "./webhooks.rules.ts";
import type { DisabledReason } from "./events.rules.ts";

const SECOND_MS = 1000;

/** The delays after failed attempts: ten attempts in about 75 hours. */
const RETRY_DELAYS_MS: readonly number[] = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];

/** Attempts that failed together, because a server was down, are spread by this part of the delay. */
const JITTER = 0.2;

/** The most by which a receiver's Retry-After may multiply the scheduled delay. */
const LONGEST_RETRY_AFTER = 2;

/** An attempt takes 15 seconds at most. If it is not recorded, because its worker was killed, it is due again after this time. */
export const LEASE_MS = 30 * SECOND_MS;

export type AttemptResult = {
  /** The HTTP status; null if no response arrived. */
  readonly status: number | null;
  /** Why it failed; null if it succeeded. */
  readonly error: string | null;
  /** The delay that the receiver asked for in `Retry-After`. */
  readonly retryAfterMs: number | null;
};

export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** The last attempt of a delivery as it is stored, and as its owner sees it. */
export const lastAttempt = z.strictObject({
  started_at: z.iso.datetime(),
  duration_ms: z.int().min(0),
  status: z.int().nullable().meta({ description: "Of the response; null if none arrived." }),
  error: z.string().nullable().meta({ description: "Why it failed; null if it succeeded." }),
});

export type LastAttempt = z.output<typeof lastAttempt>;

export type DeliveryDecision = {
  readonly state: DeliveryState;
  /** When the next attempt is due; null if there is none. */
  readonly dueAt: Date | null;
};

const GONE = 410;

/**
 * Decides what follows an attempt.
 * @param given.attempts how many attempts of the schedule have been made, this one included
 * @param given.random from 0 to 1, without 1
 */
export const decideDelivery = (
  { status, error, retryAfterMs }: AttemptResult,
  given: { readonly attempts: number; readonly now: Date; readonly random: number },
): DeliveryDecision => {
  if (error === null) {
    return { state: "delivered", dueAt: null };
  }
  const delayMs = RETRY_DELAYS_MS[given.attempts - 1];
  if (delayMs === undefined || status === GONE) {
    return { state: "failed", dueAt: null };
  }
  const spreadMs = delayMs * (1 + JITTER * (2 * given.random - 1));
  const askedMs = Math.min(retryAfterMs ?? 0, LONGEST_RETRY_AFTER * delayMs);
  const dueAt = new Date(given.now.getTime() + Math.round(Math.max(spreadMs, askedMs)));
  return { state: "pending", dueAt };
};

/**
 * Returns why an endpoint must be disabled after the last attempt of a delivery has failed, or null. Earlier failures disable it
 * only if it is gone: if events are rare, the first failure for weeks may follow an old one, and is retried like any other.
 * @param failingSince the first failure since the last success
 */
export const decideDisabling = (
  { status }: Pick<LastAttempt, "status">,
  failingSince: Date,
  now: Date,
): Exclude<DisabledReason, "requested"> | null => {
  if (status === GONE) {
    return "gone";
  }
  const isFailing = now.getTime() - failingSince.getTime() >= FAILING_DAYS * DAY_MS;
  return isFailing ? "failing" : null;
};

/** Returns the delay that a `Retry-After` header asks for: seconds, or a date. Null if it is neither. */
export const parseRetryAfter = (header: string | undefined, now: Date): number | null => {
  if (header === undefined) {
    return null;
  }
  if (/^\d{1,9}$/u.test(header)) {
    return Number(header) * SECOND_MS;
  }
  const time = Date.parse(header);
  return Number.isNaN(time) ? null : Math.max(0, time - now.getTime());
};
