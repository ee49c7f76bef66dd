import test from "ava";
import type { StoredMeterEvent } from "../../../modules/billing/meterEvents.rules.ts";
import {
  decideMinute,
  findObstacle,
  isAskedAbout,
} from "../../../modules/billing/reconciliation/minutes.rules.ts";
import type {
  Answer,
  CustomerMinute,
} from "../../../modules/billing/reconciliation/minutes.rules.ts";
import { SEALED } from "../meterEvent.ts";

const NOW = new Date("2026-05-15T12:00:00Z");
const LAG_MS = 15 * 60 * 1000;

/** The time at which something was sent whose usage is visible only in `ms` milliseconds. */
const visibleIn = (ms: number): Date => new Date(NOW.getTime() - LAG_MS + ms);

const DELIVERED: StoredMeterEvent = {
  ...SEALED,
  quantity: 20,
  state: "delivered",
  firstAttemptAt: visibleIn(0),
  settledAt: visibleIn(0),
};
const ASKED: StoredMeterEvent = {
  ...DELIVERED,
  id: 2n,
  quantity: 5,
  state: "pending",
  mayBeDelivered: true,
  askingSince: visibleIn(0),
  settledAt: null,
};
const SENT: StoredMeterEvent = { ...ASKED, mayBeDelivered: false, askingSince: null };
const FAILED: StoredMeterEvent = {
  ...ASKED,
  state: "failed",
  failure: "refused",
  askingSince: null,
  settledAt: visibleIn(0),
};

test("the sums decide about events that are asked about, and failed ones that may have been accepted", (t) => {
  const undecided = [ASKED, FAILED, { ...FAILED, failure: "unclear" as const }];
  const decided = [DELIVERED, SENT, { ...FAILED, mayBeDelivered: false }];
  t.deepEqual([...undecided, ...decided].filter(isAskedAbout), undecided);
  t.false(isAskedAbout({ ...FAILED, state: "closed", failure: null }));
});

const BEING_SENT = { reason: "another event of that minute is being sent", afterMs: 15_000 };

for (const [title, event, expected] of [
  ["an event that is asked about, once the sums show it", ASKED, null],
  ["an event that is being sent", SENT, BEING_SENT],
  ["an event that waits to be sent", { ...SENT, firstAttemptAt: null }, null],
  [
    "a delivery that the sums may not show yet",
    { ...DELIVERED, settledAt: visibleIn(1) },
    { reason: "the processor's sums may lag until 2026-05-15T12:00:00Z", afterMs: 1 },
  ],
  [
    "an attempt that the sums may not show yet",
    { ...ASKED, askingSince: visibleIn(60_001) },
    { reason: "the processor's sums may lag until 2026-05-15T12:01:00Z", afterMs: 60_001 },
  ],
  [
    "a failed attempt that the sums may not show yet",
    { ...FAILED, settledAt: visibleIn(60_000) },
    { reason: "the processor's sums may lag until 2026-05-15T12:01:00Z", afterMs: 60_000 },
  ],
  ["a recent failure that is certain", { ...FAILED, mayBeDelivered: false, settledAt: NOW }, null],
] as const) {
  test(`${expected === null ? "the sums are not kept from proving anything" : "the sums prove nothing"} by ${title}`, (t) => {
    t.deepEqual(findObstacle([DELIVERED, event], NOW), expected);
  });
}

const decide = (
  events: readonly StoredMeterEvent[],
  theirs: CustomerMinute["theirs"],
  others: Parameters<typeof decideMinute>[1] = [],
): readonly Answer[] => {
  const answers = decideMinute({ customerId: "cus_1", events, theirs }, others);
  return events.flatMap(({ id }) => answers.get(id) ?? []);
};

const found = (units: number): Answer => ({ kind: "delivered", customerId: "cus_1", units });
const ABSENT: Answer = { kind: "absent" };

for (const [title, quantity, theirs, expected] of [
  ["the processor has all others and this one", 5, 25, found(5)],
  ["the processor has more than all others and this one", 5, 44, found(5)],
  ["the processor has exactly the others", 5, 20, ABSENT],
  ["the processor has less than the others", 5, 19, ABSENT],
  ["the processor has a part of it beyond the others", 5, 24, found(4)],
  ["the processor has all others and the refund", -5, 15, found(-5)],
  ["the processor has taken back more than the refund", -5, 9, found(-5)],
  ["the processor has taken back a part of the refund", -5, 18, found(-2)],
  ["the processor has exactly the others without the refund", -5, 20, ABSENT],
  ["units beyond all others have the opposite sign of the refund", -5, 21, ABSENT],
] as const) {
  test(`an event is ${expected.kind} if ${title}`, (t) => {
    t.deepEqual(decide([DELIVERED, { ...ASKED, quantity }], theirs), [expected]);
  });
}

for (const [units, shares] of [
  [0, [0, 0, 0, 0]],
  [3, [0, 3, 0, 0]],
  [7, [0, 5, 0, 2]],
  [20, [0, 5, 0, 4]],
  [-1, [-1, 0, 0, 0]],
  [-5, [-2, 0, -3, 0]],
  [-9, [-2, 0, -4, 0]],
] as const) {
  test(`of ${units} unexplained units, the minute's events get theirs: usage before refunds, and in their order`, (t) => {
    const events = Array.from([-2, 5, -4, 4], (quantity, index) => ({
      ...ASKED,
      id: BigInt(index),
      quantity,
    }));
    const expected = shares.map((share) => (share === 0 ? ABSENT : found(share)));

    t.deepEqual(decide(events, units), expected);
  });
}

/** Another customer that may have usage of accounts, and its units beyond its own events. */
const other = (
  theirs: CustomerMinute["theirs"],
  { customerId = "cus_2", accountId = "a" } = {},
): Parameters<typeof decideMinute>[1][number] => ({
  customerId,
  accountIds: [accountId],
  events: [{ ...DELIVERED, customerId, quantity: 100 }],
  theirs: typeof theirs === "number" ? 100 + theirs : theirs,
});

test("usage that another customer of its account has is delivered there", (t) => {
  const [answer] = decide([ASKED], 0, [other(5)]);
  t.deepEqual(answer, { ...found(5), customerId: "cus_2" });
});

test("units of another customer are found in one event only", (t) => {
  const unclear = decide([ASKED, { ...ASKED, id: 3n }], 0, [other(7)])[1];
  const reason = "no other usage explains 2 units at cus_2, and this event has 5";
  t.deepEqual(unclear, { kind: "unclear", reason });
  t.deepEqual(decide([ASKED, { ...ASKED, id: 3n }], 0, [other(5)])[1], ABSENT);
});

test("usage that may be at two customers is unclear", (t) => {
  for (const [theirs, others, places] of [
    [0, [other(5), other(5, { customerId: "cus_3" })], "5 units at cus_2 and 5 units at cus_3"],
    [2, [other(3)], "2 units at cus_1 and 3 units at cus_2"],
    [0, [other(3)], "3 units at cus_2"],
  ] as const) {
    const [answer] = decide([ASKED], theirs, others);
    const reason = `no other usage explains ${places}, and this event has 5`;
    t.deepEqual(answer, { kind: "unclear", reason });
  }
});

test("a customer of another account, or one that has less than its events, explains nothing", (t) => {
  t.deepEqual(decide([ASKED], 0, [other(5, { accountId: "b" })]), [ABSENT]);
  t.deepEqual(decide([ASKED], 0, [other(-5)]), [ABSENT]);
});

const GONE = { unreadable: "no such customer" };
const UNREADABLE: Answer = {
  kind: "unclear",
  reason: "the processor does not report its usage: no such customer",
};

test("an event of a customer whose sums cannot be read is unclear", (t) => {
  t.deepEqual(decide([ASKED], GONE), [UNREADABLE]);
  t.deepEqual(decide([ASKED], GONE, [other(5)]), [UNREADABLE]);
  t.deepEqual(decide([ASKED], 0, [other(GONE)]), [UNREADABLE]);
  t.deepEqual(decide([ASKED], 4, [other(GONE)]), [UNREADABLE]);
});

test("an unreadable customer shows nothing against what another one shows", (t) => {
  t.deepEqual(decide([ASKED], 5, [other(GONE)]), [found(5)]);
  t.deepEqual(decide([{ ...ASKED, quantity: -5 }], 0, [other(GONE)]), [ABSENT]);
});

test("an event that a customer refused is absent if that customer cannot be read, because it does not exist", (t) => {
  t.deepEqual(decide([FAILED], GONE), [ABSENT]);
  t.deepEqual(decide([{ ...FAILED, failure: "unclear" }], GONE), [UNREADABLE]);
  t.deepEqual(decide([FAILED], GONE, [other(5)]), [{ ...found(5), customerId: "cus_2" }]);
});
