import test from "ava";
import {
  asLate,
  decideNextStep,
  LEASED,
  needsAttention,
  STRIPE_MISSING,
  withJitter,
  withoutProcessor,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";
import type {
  AttemptOutcome,
  Delay,
  NextStep,
  Settlement,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";

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
  readonly processor?: "stripe" | "ledger";
  readonly outcome?: AttemptOutcome | null;
};

const decide = ({
  ageMs,
  attemptedMs = null,
  attempts = 1,
  mayBeDelivered = false,
  isAsked = false,
  processor = "stripe",
  outcome = null,
}: Case): NextStep => {
  const nowMs = SECOND * 1000 + ageMs;
  const firstAttemptAt = attemptedMs === null ? null : new Date(nowMs - attemptedMs);
  const askingSince = isAsked ? new Date(nowMs) : null;
  const event = {
    second: SECOND,
    attempts,
    firstAttemptAt,
    mayBeDelivered,
    askingSince,
    processor,
  };
  return decideNextStep(event, outcome, new Date(nowMs));
};

const decides = test.macro({
  exec: (t, given: Case, expected: NextStep) => {
    t.deepEqual(decide(given), expected);
  },
  title: (title = "") => title,
});

const SEND: NextStep = { kind: "send" };
const ASK: NextStep = { kind: "ask" };
const delayed = (fields: Pick<Delay, "cause" | "reason"> & Partial<Delay>): Delay => ({
  kind: "delayed",
  afterMs: 1000,
  outcomeUnknown: false,
  newKey: false,
  ...fields,
});
const DELIVERED: Settlement = {
  kind: "settled",
  state: "delivered",
  failure: null,
  reason: null,
  isLate: false,
};
const failed = (failure: Settlement["failure"], reason: string): Settlement => ({
  ...DELIVERED,
  state: "failed",
  failure,
  reason,
});
const TOO_OLD = failed("too_old", "older than the processor accepts");
const WAIT = delayed({
  cause: "early",
  reason: "ahead of the processor's clock",
  afterMs: MINUTE_MS,
});
/** The sums decide from then on. */
const asking = (reason: string): Delay =>
  delayed({ cause: "asking", reason, outcomeUnknown: true });
const LOST = asking("the outcome of an attempt was never known");

test("an event of this second is sent", decides, { ageMs: 0 }, SEND);
test(
  "an event of the greatest age that Stripe accepts is sent",
  decides,
  { ageMs: OLDEST_MS },
  SEND,
);
test("an event a millisecond older fails", decides, { ageMs: OLDEST_MS + 1 }, TOO_OLD);
test(
  "an event of any age is sent to the ledger",
  decides,
  { ageMs: 100 * OLDEST_MS, processor: "ledger" },
  SEND,
);
test("an event as far ahead as Stripe accepts is sent", decides, { ageMs: -FURTHEST_MS }, SEND);
test("an event a millisecond further ahead waits", decides, { ageMs: -FURTHEST_MS - 1 }, WAIT);

const unknown = { mayBeDelivered: true } as const;

test(
  "an event with an unknown outcome is sent again while its identifier is trusted",
  decides,
  { ...unknown, ageMs: 2 * DAY_MS, attemptedMs: TRUSTED_MS },
  SEND,
);
test(
  "an event with an unknown outcome is asked about a millisecond later",
  decides,
  { ...unknown, ageMs: 2 * DAY_MS, attemptedMs: TRUSTED_MS + 1 },
  LOST,
);
test(
  "an event with an unknown outcome that was just attempted is sent again at the greatest age that Stripe accepts",
  decides,
  { ...unknown, ageMs: OLDEST_MS, attemptedMs: 0 },
  SEND,
);
test(
  "an event with an unknown outcome that is too old to send is asked about, however recent the attempt",
  decides,
  { ...unknown, ageMs: OLDEST_MS + 1, attemptedMs: 0 },
  LOST,
);
test(
  "an event with an unknown outcome and no recorded attempt is sent again",
  decides,
  { ...unknown, ageMs: DAY_MS },
  SEND,
);
test(
  "an event with an unknown outcome and no recorded attempt is asked about once it is too old",
  decides,
  { ...unknown, ageMs: OLDEST_MS + 1 },
  LOST,
);
test(
  "an event with an unknown outcome waits while it is too far ahead",
  decides,
  { ...unknown, ageMs: -FURTHEST_MS - 1, attemptedMs: TRUSTED_MS },
  WAIT,
);
test(
  "an event with an unknown outcome whose identifier is no longer trusted is asked about although it is too far ahead",
  decides,
  { ...unknown, ageMs: -FURTHEST_MS - 1, attemptedMs: TRUSTED_MS + 1 },
  LOST,
);
test(
  "an event with a known outcome is sent again, however long ago the attempt was",
  decides,
  { ageMs: OLDEST_MS, attemptedMs: 30 * DAY_MS },
  SEND,
);
test(
  "an event with a known outcome fails once it is too old",
  decides,
  { ageMs: OLDEST_MS + 1, attemptedMs: 30 * DAY_MS },
  TOO_OLD,
);

test("an event that is asked about is never sent before, whatever its age", (t) => {
  for (const ageMs of [-FURTHEST_MS - 1, 0, OLDEST_MS + 1]) {
    t.deepEqual(decide({ ...unknown, isAsked: true, attemptedMs: 0, ageMs }), ASK);
  }
});

const reason = "the reason";

/** The outcomes, whose step does not depend on the event's age. */
const AFTER_A_CALL: readonly {
  readonly title: string;
  readonly outcome: AttemptOutcome;
  readonly expected: NextStep;
  /** If an earlier attempt may have been accepted. */
  readonly expectedIfUnknown?: NextStep;
}[] = [
  {
    title: "an accepted event is delivered",
    outcome: { kind: "delivered" },
    expected: DELIVERED,
  },
  {
    title:
      "a duplicate is delivered if an earlier attempt may have been accepted, or else asked about",
    outcome: { kind: "duplicate", reason },
    expected: asking(reason),
    expectedIfUnknown: DELIVERED,
  },
  {
    title: "an event whose identifier was used for other values is asked about",
    outcome: { kind: "conflict", reason },
    expected: asking(reason),
  },
  {
    title: "an event that was not accepted is sent again later",
    outcome: { kind: "retry", reason, outcomeUnknown: false },
    expected: delayed({ cause: "retry", reason }),
  },
  {
    title: "an event that may have been accepted is sent again later, with an unknown outcome",
    outcome: { kind: "retry", reason, outcomeUnknown: true },
    expected: delayed({ cause: "retry", reason, outcomeUnknown: true }),
  },
  {
    title: "an error saved under the idempotency key leads to another key",
    outcome: { kind: "retry", reason, outcomeUnknown: true, newKey: true },
    expected: delayed({ cause: "retry", reason, outcomeUnknown: true, newKey: true }),
  },
  {
    title: "too many calls delay an event like any failure that accepted nothing",
    outcome: { kind: "rate_limited", reason },
    expected: delayed({ cause: "rate_limited", reason }),
  },
  {
    title: "a wrong configuration delays the event by five minutes",
    outcome: { kind: "misconfigured", reason },
    expected: delayed({ cause: "misconfigured", reason, afterMs: 5 * MINUTE_MS }),
  },
  {
    title: "a wrong configuration that is saved under the idempotency key leads to another key",
    outcome: { kind: "misconfigured", reason, newKey: true },
    expected: delayed({ cause: "misconfigured", reason, afterMs: 5 * MINUTE_MS, newKey: true }),
  },
  {
    title: "a refused event fails",
    outcome: { kind: "rejected", reason },
    expected: failed("refused", reason),
  },
];

for (const { title, outcome, expected, expectedIfUnknown = expected } of AFTER_A_CALL) {
  test(title, (t) => {
    for (const ageMs of [-FURTHEST_MS - 1, 0, OLDEST_MS + 1]) {
      for (const attemptedMs of [null, 0, TRUSTED_MS + 1]) {
        t.deepEqual(decide({ ageMs, attemptedMs, outcome }), expected);
        t.deepEqual(
          decide({ ageMs, attemptedMs, outcome, mayBeDelivered: true }),
          expectedIfUnknown,
        );
      }
    }
  });
}

test("the delay of a retry doubles with the event's own attempts, up to a minute", (t) => {
  const outcome = { kind: "retry", reason, outcomeUnknown: false } as const;
  const delayAfter = (attempts: number): unknown => {
    const step = decide({ ageMs: 0, attempts, outcome });
    return step.kind === "delayed" ? step.afterMs : step;
  };

  t.deepEqual(
    [1, 2, 3, 6, 7, 8, 100_000].map(delayAfter),
    [1000, 2000, 4000, 32_000, 60_000, 60_000, 60_000],
  );
});

test("jitter shortens the delay of a retry by up to a half, and no other delay", (t) => {
  for (const cause of ["retry", "rate_limited"] as const) {
    const retry = delayed({ cause, reason, afterMs: 4000 });
    t.deepEqual(
      [0, 0.5, 0.999_999].map((random) => withJitter(retry, random).afterMs),
      [4000, 3000, 2001],
    );
  }
  t.deepEqual(withJitter(LEASED, 0.5), LEASED);
});

test("an event that is ahead waits for ten attempts, and is then sealed again later", (t) => {
  const ageMs = -HOUR_MS;
  t.deepEqual(decide({ ageMs, attempts: 10 }), WAIT);
  t.deepEqual(decide({ ageMs, attempts: 11 }), { kind: "unseal" });
  t.deepEqual(decide({ ageMs: -FURTHEST_MS, attempts: 11 }), SEND);
});

test("an event that is ahead and may have been accepted waits while its identifier will be trusted in its second", (t) => {
  const ahead = { ...unknown, attempts: 11, ageMs: -TRUSTED_MS };
  const further = { ...ahead, ageMs: -TRUSTED_MS - 1 };
  t.deepEqual(decide(ahead), WAIT);
  t.deepEqual(decide({ ...further, attempts: 10 }), WAIT);
  t.deepEqual(decide(further), asking("ahead of the processor's clock"));
});

test("without its processor an event fails", (t) => {
  t.deepEqual(
    withoutProcessor({ processor: "stripe" }),
    failed("refused", "the event was sealed for stripe, which is not configured"),
  );
});

test("an operator is needed for wrong configurations, failed events and late deliveries, and for nothing else", (t) => {
  const needed = [
    delayed({ cause: "misconfigured", reason }),
    STRIPE_MISSING,
    failed("refused", reason),
    failed("too_old", reason),
    failed("unclear", reason),
    asLate(DELIVERED),
  ];
  const notNeeded = [
    delayed({ cause: "retry", reason }),
    delayed({ cause: "early", reason }),
    asking(reason),
    LEASED,
    DELIVERED,
  ];

  t.deepEqual(needed.filter(needsAttention), needed);
  t.deepEqual(notNeeded.filter(needsAttention), []);
});
