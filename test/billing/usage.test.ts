import test from "ava";
import {
  decideSend,
  lastSealableSecond,
  MAXIMUM_QUANTITY,
  meterEventIdentifierStem,
  secondOf,
} from "../../domain/billing/usage.ts";
import type { SendDecision } from "../../domain/billing/usage.ts";

const SECOND = 1_800_000_000;
const MINUTE_MS = 60 * 1000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const OLDEST_MS = 34.5 * DAY_MS;

const decides = test.macro({
  exec: (
    t,
    {
      ageMs,
      attemptedMs = null,
      outcomeUnknown = false,
      acceptedAgeMs = OLDEST_MS,
    }: {
      /** How long ago the event's second began; negative where it is yet to begin. */
      readonly ageMs: number;
      /** How long ago it was first attempted. */
      readonly attemptedMs?: number | null;
      readonly outcomeUnknown?: boolean;
      readonly acceptedAgeMs?: number | null;
    },
    expected: SendDecision,
  ) => {
    const nowMs = SECOND * 1000 + ageMs;
    const firstAttemptAt = attemptedMs === null ? null : new Date(nowMs - attemptedMs);
    const event = { second: SECOND, firstAttemptAt, outcomeUnknown };
    t.is(decideSend(event, acceptedAgeMs, new Date(nowMs)), expected);
  },
  title: (title = "") => title,
});

const FURTHEST_MS = 4 * MINUTE_MS;
const TRUSTED_MS = 20 * HOUR_MS;

test("an event of this second is sent", decides, { ageMs: 0 }, "send");
test("an event as old as Stripe takes is sent", decides, { ageMs: OLDEST_MS }, "send");
test("an event a millisecond older is expired", decides, { ageMs: OLDEST_MS + 1 }, "expire");
test(
  "an event of any age is sent to a processor that takes any",
  decides,
  { ageMs: 100 * OLDEST_MS, acceptedAgeMs: null },
  "send",
);
test("an event as far ahead as Stripe takes is sent", decides, { ageMs: -FURTHEST_MS }, "send");
test("an event a millisecond further ahead waits", decides, { ageMs: -FURTHEST_MS - 1 }, "wait");

const unknown = { outcomeUnknown: true } as const;

test(
  "an unknown outcome is resent as long as the identifier is unique",
  decides,
  { ...unknown, ageMs: 2 * DAY_MS, attemptedMs: TRUSTED_MS },
  "send",
);
test(
  "an unknown outcome is looked up a millisecond later",
  decides,
  { ...unknown, ageMs: 2 * DAY_MS, attemptedMs: TRUSTED_MS + 1 },
  "reconcile",
);
test(
  "an unknown outcome of an event just attempted is resent at the end of what Stripe takes",
  decides,
  { ...unknown, ageMs: OLDEST_MS, attemptedMs: 0 },
  "send",
);
test(
  "an unknown outcome of an event that is too old to resend is looked up, however short ago the attempt",
  decides,
  { ...unknown, ageMs: OLDEST_MS + 1, attemptedMs: 0 },
  "reconcile",
);
test(
  "an unknown outcome without an attempt on record is resent",
  decides,
  { ...unknown, ageMs: DAY_MS },
  "send",
);
test(
  "an unknown outcome without an attempt on record is looked up once it is too old",
  decides,
  { ...unknown, ageMs: OLDEST_MS + 1 },
  "reconcile",
);
test(
  "an unknown outcome waits while the event is ahead",
  decides,
  { ...unknown, ageMs: -FURTHEST_MS - 1, attemptedMs: TRUSTED_MS },
  "wait",
);
test(
  "an unknown outcome of long ago is looked up though the event is ahead",
  decides,
  { ...unknown, ageMs: -FURTHEST_MS - 1, attemptedMs: TRUSTED_MS + 1 },
  "reconcile",
);
test(
  "a known outcome is resent, however long ago the attempt",
  decides,
  { ageMs: OLDEST_MS, attemptedMs: 30 * DAY_MS },
  "send",
);
test(
  "a known outcome is expired when it is too old",
  decides,
  { ageMs: OLDEST_MS + 1, attemptedMs: 30 * DAY_MS },
  "expire",
);

test("usage belongs to the second in which it began, to its last millisecond", (t) => {
  t.is(secondOf(new Date(SECOND * 1000 - 1)), SECOND - 1);
  t.is(secondOf(new Date(SECOND * 1000)), SECOND);
  t.is(secondOf(new Date(SECOND * 1000 + 999)), SECOND);
});

test("a second may be sealed two seconds after its end, not a millisecond earlier", (t) => {
  t.is(lastSealableSecond(new Date(SECOND * 1000 - 1)), SECOND - 4);
  t.is(lastSealableSecond(new Date(SECOND * 1000)), SECOND - 3);
  t.is(lastSealableSecond(new Date(SECOND * 1000 + 999)), SECOND - 3);
  t.is(lastSealableSecond(new Date(SECOND * 1000 + 1000)), SECOND - 2);
});

test("sealings of different seconds and streams never have the same identifier", (t) => {
  const stream = { accountId: "a", mode: "live", meter: "tree" } as const;
  const stems = [
    meterEventIdentifierStem(stream, 1),
    meterEventIdentifierStem({ ...stream, accountId: "b" }, 1),
    meterEventIdentifierStem({ ...stream, mode: "test" }, 1),
    meterEventIdentifierStem({ ...stream, meter: "bottle" }, 1),
    meterEventIdentifierStem(stream, 2),
    meterEventIdentifierStem(stream, 11),
  ];
  t.is(stems[0], "u1:a:live:tree:1:");
  const identifiers = stems.flatMap((stem) => [`${stem}1`, `${stem}2`, `${stem}11`]);
  t.is(new Set(identifiers).size, identifiers.length);
});

test("the largest quantity is the last number of 15 digits", (t) => {
  t.is(String(MAXIMUM_QUANTITY).length, 15);
  t.is(String(MAXIMUM_QUANTITY + 1).length, 16);
});
