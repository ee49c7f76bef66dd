import test from "ava";
import {
  decideNextStep,
  decideResult,
  misconfigured,
  needsAttention,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";
import type {
  AttemptOutcome,
  Delay,
  NextStep,
  Settlement,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { SEALED } from "../meterEvent.ts";

const SECOND = 1_800_000_000;
const MINUTE_MS = 60 * 1000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const OLDEST_MS = 34.5 * DAY_MS;
const FURTHEST_MS = 4 * MINUTE_MS;
const TRUSTED_MS = 20 * HOUR_MS;

type Case = {
  /** How long ago the event's second began; negative if it is in the future. */
  readonly ageMs: number;
  /** How long ago the event was first attempted. */
  readonly attemptedMs?: number | null;
  readonly attempts?: number;
  readonly mayBeDelivered?: boolean;
  readonly isAsked?: boolean;
};

const eventOf = ({
  ageMs,
  attemptedMs = null,
  attempts = 1,
  mayBeDelivered = false,
  isAsked = false,
}: Case) => {
  const nowMs = SECOND * 1000 + ageMs;
  return {
    ...SEALED,
    second: SECOND,
    attempts,
    firstAttemptAt: attemptedMs === null ? null : new Date(nowMs - attemptedMs),
    mayBeDelivered,
    askingSince: isAsked ? new Date(nowMs) : null,
  };
};

const decide = (given: Case): NextStep =>
  decideNextStep(eventOf(given), new Date(SECOND * 1000 + given.ageMs));

const SEND: NextStep = { kind: "send" };
const ASK: NextStep = { kind: "ask" };
const delayed = (fields: Pick<Delay, "cause" | "reason"> & Partial<Delay>): Delay => ({
  kind: "delayed",
  afterMs: 1000,
  ...fields,
});
const DELIVERED: Settlement = { kind: "settled", state: "delivered", failure: null, reason: null };
const failed = (failure: Settlement["failure"], reason: string): Settlement => ({
  ...DELIVERED,
  state: "failed",
  failure,
  reason,
});
const TOO_OLD = failed("too_old", "older than the processor accepts");
const AHEAD = "ahead of the processor's clock";
const WAIT = delayed({ cause: "early", reason: AHEAD, afterMs: MINUTE_MS });
/** The sums decide from then on. */
const asking = (reason: string): Delay =>
  delayed({ cause: "asking", reason, outcomeUnknown: true });
const LOST = asking("the outcome of an attempt was never known");

const TOO_OLD_MS = OLDEST_MS + 1;
const TOO_EARLY_MS = -FURTHEST_MS - 1;
const DISTRUSTED_MS = TRUSTED_MS + 1;
const unknown = { mayBeDelivered: true } as const;

const BEFORE_A_CALL: Readonly<Record<string, readonly [Case, NextStep]>> = {
  "an event of this second is sent": [{ ageMs: 0 }, SEND],
  "an event of the greatest age that Stripe accepts is sent": [{ ageMs: OLDEST_MS }, SEND],
  "an event a millisecond older fails": [{ ageMs: TOO_OLD_MS }, TOO_OLD],
  "an event as far ahead as Stripe accepts is sent": [{ ageMs: -FURTHEST_MS }, SEND],
  "an event a millisecond further ahead waits": [{ ageMs: TOO_EARLY_MS }, WAIT],
  "an event with an unknown outcome is sent again while its identifier is trusted": [
    { ...unknown, ageMs: 2 * DAY_MS, attemptedMs: TRUSTED_MS },
    SEND,
  ],
  "an event with an unknown outcome is asked about a millisecond later": [
    { ...unknown, ageMs: 2 * DAY_MS, attemptedMs: DISTRUSTED_MS },
    LOST,
  ],
  "an event with an unknown outcome is sent again at the greatest age that Stripe accepts": [
    { ...unknown, ageMs: OLDEST_MS, attemptedMs: 0 },
    SEND,
  ],
  "an event with an unknown outcome that is too old to send is asked about, however recent the attempt":
    [{ ...unknown, ageMs: TOO_OLD_MS, attemptedMs: 0 }, LOST],
  "an event with an unknown outcome and no recorded attempt is sent again": [
    { ...unknown, ageMs: DAY_MS },
    SEND,
  ],
  "an event with an unknown outcome and no recorded attempt is asked about once it is too old": [
    { ...unknown, ageMs: TOO_OLD_MS },
    LOST,
  ],
  "an event with an unknown outcome waits while it is too far ahead": [
    { ...unknown, ageMs: TOO_EARLY_MS, attemptedMs: TRUSTED_MS },
    WAIT,
  ],
  "an event too far ahead whose identifier is no longer trusted is asked about": [
    { ...unknown, ageMs: TOO_EARLY_MS, attemptedMs: DISTRUSTED_MS },
    LOST,
  ],
  "an event with a known outcome is sent again, however long ago the attempt was": [
    { ageMs: OLDEST_MS, attemptedMs: 30 * DAY_MS },
    SEND,
  ],
  "an event with a known outcome fails once it is too old": [
    { ageMs: TOO_OLD_MS, attemptedMs: 30 * DAY_MS },
    TOO_OLD,
  ],
};

for (const [title, [given, expected]] of Object.entries(BEFORE_A_CALL)) {
  test(title, (t) => {
    t.deepEqual(decide(given), expected);
  });
}

test("an event that is asked about is never sent before, whatever its age", (t) => {
  for (const ageMs of [TOO_EARLY_MS, 0, TOO_OLD_MS]) {
    t.deepEqual(decide({ ...unknown, isAsked: true, attemptedMs: 0, ageMs }), ASK);
  }
});

const reason = "the reason";

/** The outcomes, and their step if an earlier attempt may have been accepted, in case that differs. */
const AFTER_A_CALL: Readonly<Record<string, readonly [AttemptOutcome, NextStep, NextStep?]>> = {
  "an accepted event is delivered": [{ kind: "delivered" }, DELIVERED],
  "a duplicate is delivered if an earlier attempt may have been accepted, or else asked about": [
    { kind: "duplicate", reason },
    asking(reason),
    DELIVERED,
  ],
  "an event whose identifier was used for other values is asked about": [
    { kind: "conflict", reason },
    asking(reason),
  ],
  "an event that was not accepted is sent again later": [
    { kind: "retry", reason },
    delayed({ cause: "retry", reason }),
  ],
  "an error saved under the idempotency key, with an unknown outcome, leads to another key": [
    { kind: "retry", reason, outcomeUnknown: true, newKey: true },
    delayed({ cause: "retry", reason, outcomeUnknown: true, newKey: true }),
  ],
  "too many calls delay an event like any failure that accepted nothing": [
    { kind: "rate_limited", reason },
    delayed({ cause: "rate_limited", reason }),
  ],
  "a wrong configuration delays the event by five minutes": [
    { kind: "misconfigured", reason },
    delayed({ cause: "misconfigured", reason, afterMs: 5 * MINUTE_MS }),
  ],
  "a refused event fails": [{ kind: "rejected", reason }, failed("refused", reason)],
};

for (const [title, [outcome, expected, ifUnknown = expected]] of Object.entries(AFTER_A_CALL)) {
  test(title, (t) => {
    t.deepEqual(decideResult(eventOf({ ageMs: 0 }), outcome), expected);
    t.deepEqual(decideResult(eventOf({ ageMs: 0, ...unknown }), outcome), ifUnknown);
  });
}

test("an event that is ahead waits for ten attempts, and then fails", (t) => {
  const ageMs = -HOUR_MS;
  t.deepEqual(decide({ ageMs, attempts: 10 }), WAIT);
  t.deepEqual(decide({ ageMs, attempts: 11 }), failed("refused", AHEAD));
  t.deepEqual(decide({ ageMs: -FURTHEST_MS, attempts: 11 }), SEND);
});

test("an operator is needed for wrong configurations and failed events, and for nothing else", (t) => {
  const needed = [
    delayed({ cause: "misconfigured", reason }),
    misconfigured(reason),
    failed("refused", reason),
    failed("too_old", reason),
    failed("unclear", reason),
  ];
  const notNeeded = [
    delayed({ cause: "retry", reason }),
    delayed({ cause: "early", reason }),
    asking(reason),
    DELIVERED,
  ];

  t.deepEqual(needed.filter(needsAttention), needed);
  t.deepEqual(notNeeded.filter(needsAttention), []);
});
