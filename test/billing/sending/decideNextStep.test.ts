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
  SendingEvent,
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
  readonly outcomeUnknown?: boolean;
  readonly inDoubt?: boolean;
  readonly processor?: "stripe" | "ledger";
  readonly outcome?: AttemptOutcome | null;
};

const decide = ({
  ageMs,
  attemptedMs = null,
  attempts = 1,
  outcomeUnknown = false,
  inDoubt = false,
  processor = "stripe",
  outcome = null,
}: Case): NextStep => {
  const nowMs = SECOND * 1000 + ageMs;
  const firstAttemptAt = attemptedMs === null ? null : new Date(nowMs - attemptedMs);
  const inDoubtSince = inDoubt ? new Date(nowMs) : null;
  const event = {
    second: SECOND,
    attempts,
    firstAttemptAt,
    outcomeUnknown,
    inDoubtSince,
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
const CHECK: NextStep = { kind: "check" };
const delayed = (fields: Pick<Delay, "cause" | "reason"> & Partial<Delay>): Delay => ({
  kind: "delayed",
  afterMs: 1000,
  outcomeUnknown: false,
  newKey: false,
  ...fields,
});
const settled = (
  state: Settlement["state"],
  reason: string | null = null,
  acceptedQuantity: number | null = null,
): Settlement => ({ kind: "settled", state, reason, acceptedQuantity, isLate: false });
const EXPIRE = settled("expired", "older than the processor accepts");
const WAIT = delayed({
  cause: "early",
  reason: "ahead of the processor's clock",
  afterMs: MINUTE_MS,
});

test("an event of this second is sent", decides, { ageMs: 0 }, SEND);
test(
  "an event of the greatest age that Stripe accepts is sent",
  decides,
  { ageMs: OLDEST_MS },
  SEND,
);
test("an event a millisecond older is expired", decides, { ageMs: OLDEST_MS + 1 }, EXPIRE);
test(
  "an event of any age is sent to the ledger",
  decides,
  { ageMs: 100 * OLDEST_MS, processor: "ledger" },
  SEND,
);
test("an event as far ahead as Stripe accepts is sent", decides, { ageMs: -FURTHEST_MS }, SEND);
test("an event a millisecond further ahead waits", decides, { ageMs: -FURTHEST_MS - 1 }, WAIT);

const unknown = { outcomeUnknown: true } as const;

test(
  "an event with an unknown outcome is sent again while its identifier is trusted",
  decides,
  { ...unknown, ageMs: 2 * DAY_MS, attemptedMs: TRUSTED_MS },
  SEND,
);
test(
  "an event with an unknown outcome is checked a millisecond later",
  decides,
  { ...unknown, ageMs: 2 * DAY_MS, attemptedMs: TRUSTED_MS + 1 },
  CHECK,
);
test(
  "an event with an unknown outcome that was just attempted is sent again at the greatest age that Stripe accepts",
  decides,
  { ...unknown, ageMs: OLDEST_MS, attemptedMs: 0 },
  SEND,
);
test(
  "an event with an unknown outcome that is too old to send is checked, however recent the attempt",
  decides,
  { ...unknown, ageMs: OLDEST_MS + 1, attemptedMs: 0 },
  CHECK,
);
test(
  "an event with an unknown outcome and no recorded attempt is sent again",
  decides,
  { ...unknown, ageMs: DAY_MS },
  SEND,
);
test(
  "an event with an unknown outcome and no recorded attempt is checked once it is too old",
  decides,
  { ...unknown, ageMs: OLDEST_MS + 1 },
  CHECK,
);
test(
  "an event with an unknown outcome waits while it is too far ahead",
  decides,
  { ...unknown, ageMs: -FURTHEST_MS - 1, attemptedMs: TRUSTED_MS },
  WAIT,
);
test(
  "an event with an unknown outcome whose identifier is no longer trusted is checked although it is too far ahead",
  decides,
  { ...unknown, ageMs: -FURTHEST_MS - 1, attemptedMs: TRUSTED_MS + 1 },
  CHECK,
);
test(
  "an event with a known outcome is sent again, however long ago the attempt was",
  decides,
  { ageMs: OLDEST_MS, attemptedMs: 30 * DAY_MS },
  SEND,
);
test(
  "an event with a known outcome is expired once it is too old",
  decides,
  { ageMs: OLDEST_MS + 1, attemptedMs: 30 * DAY_MS },
  EXPIRE,
);

const ABSENT = { kind: "absent" } as const;
const checked = { ...unknown, outcome: ABSENT, attemptedMs: TRUSTED_MS + 1 } as const;

test("an event that a check found absent is sent", decides, { ...checked, ageMs: DAY_MS }, SEND);
test(
  "an event that a check found absent is expired if it is too old",
  decides,
  { ...checked, ageMs: OLDEST_MS + 1 },
  EXPIRE,
);
test(
  "an event that a check found absent waits while it is too far ahead",
  decides,
  { ...checked, ageMs: -FURTHEST_MS - 1 },
  WAIT,
);

const inDoubt = { inDoubt: true, outcomeUnknown: true, attemptedMs: 0 } as const;

test("an event in doubt is checked, whatever its age", (t) => {
  for (const ageMs of [-FURTHEST_MS - 1, 0, OLDEST_MS + 1]) {
    t.deepEqual(decide({ ...inDoubt, ageMs }), CHECK);
  }
});
test(
  "an event in doubt that is absent is superseded, because its identifier may have been used",
  decides,
  { ...inDoubt, ageMs: 0, outcome: ABSENT },
  settled("superseded"),
);
test(
  "an event in doubt that is absent is expired if it is too old",
  decides,
  { ...inDoubt, ageMs: OLDEST_MS + 1, outcome: ABSENT },
  EXPIRE,
);
test(
  "an event in doubt is delivered with the part that the processor has",
  decides,
  { ...inDoubt, ageMs: 0, outcome: { kind: "partial", acceptedQuantity: 4 } },
  settled("delivered", "the processor has 4 of the units; the others are sealed anew", 4),
);

const reason = "the reason";

/** The outcomes whose step does not depend on the event's age. */
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
    expected: settled("delivered"),
  },
  {
    title:
      "a duplicate is delivered if an earlier attempt may have been accepted, or else in doubt",
    outcome: { kind: "duplicate", reason: "the reason" },
    expected: delayed({
      cause: "in_doubt",
      reason: "the reason",
      afterMs: 1000,
      outcomeUnknown: true,
    }),
    expectedIfUnknown: settled("delivered"),
  },
  {
    title: "an identifier that was used for other values puts the event in doubt",
    outcome: { kind: "conflict", reason: "the reason" },
    expected: delayed({
      cause: "in_doubt",
      reason: "the reason",
      afterMs: 1000,
      outcomeUnknown: true,
    }),
  },
  {
    title: "a part of an event that could still be accepted puts the event in doubt",
    outcome: { kind: "partial", acceptedQuantity: 4 },
    expected: delayed({
      cause: "in_doubt",
      reason: "the processor has 4 of the units",
      afterMs: 1000,
      outcomeUnknown: true,
    }),
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
    title: "a check that is too early delays the event for as long as the check says",
    outcome: { kind: "early", reason, afterMs: 1234 },
    expected: delayed({ cause: "early", reason, afterMs: 1234 }),
  },
  {
    title: "a refused event is rejected, or blocked if an earlier attempt may have been accepted",
    outcome: { kind: "rejected", reason },
    expected: settled("rejected", reason),
    expectedIfUnknown: settled("blocked", reason),
  },
  {
    title: "an event is blocked if a check is unclear",
    outcome: { kind: "unclear", reason },
    expected: settled("blocked", reason),
  },
];

for (const { title, outcome, expected, expectedIfUnknown = expected } of AFTER_A_CALL) {
  test(title, (t) => {
    for (const ageMs of [-FURTHEST_MS - 1, 0, OLDEST_MS + 1]) {
      for (const attemptedMs of [null, 0, TRUSTED_MS + 1]) {
        t.deepEqual(decide({ ageMs, attemptedMs, outcome }), expected);
        t.deepEqual(
          decide({ ageMs, attemptedMs, outcome, outcomeUnknown: true }),
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
  const retry = delayed({ cause: "retry", reason, afterMs: 4000 });

  t.is(withJitter(retry, 0).afterMs, 4000);
  t.is(withJitter(retry, 0.5).afterMs, 3000);
  t.is(withJitter(retry, 0.999_999).afterMs, 2001);
  t.deepEqual(withJitter(LEASED, 0.5), LEASED);
});

test("without its processor an event is rejected, or blocked if an attempt may have been accepted", (t) => {
  const event: SendingEvent = {
    processor: "stripe",
    second: SECOND,
    attempts: 1,
    firstAttemptAt: null,
    outcomeUnknown: false,
    inDoubtSince: null,
  };
  const why = "the event was sealed for stripe, which is not configured";

  t.deepEqual(withoutProcessor(event), settled("rejected", why));
  t.deepEqual(withoutProcessor({ ...event, outcomeUnknown: true }), settled("blocked", why));
});

test("an operator is needed for wrong configurations, failed events and late deliveries, and for nothing else", (t) => {
  const configuration = delayed({ cause: "misconfigured", reason });
  const needed = [
    configuration,
    STRIPE_MISSING,
    settled("rejected"),
    settled("expired"),
    settled("blocked"),
    asLate(settled("delivered")),
  ];
  const notNeeded = [
    delayed({ cause: "retry", reason }),
    delayed({ cause: "early", reason }),
    LEASED,
    settled("delivered"),
    settled("superseded"),
    settled("delivered", reason, 4),
  ];

  t.deepEqual(needed.filter(needsAttention), needed);
  t.deepEqual(notNeeded.filter(needsAttention), []);
});
