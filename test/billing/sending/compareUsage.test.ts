import test from "ava";
import {
  compareEvents,
  compareUsage,
} from "../../../modules/billing/sending/compareUsage.rules.ts";
import type { AttemptOutcome } from "../../../modules/billing/sending/decideNextStep.rules.ts";

const NOW = new Date("2026-05-15T12:00:00Z");
const LAG_MS = 15 * 60 * 1000;

/** The time at which something was sent whose usage is visible only in `ms` milliseconds. */
const visibleIn = (ms: number): Date => new Date(NOW.getTime() - LAG_MS + ms);

const compares = test.macro({
  exec: (
    t,
    {
      theirs,
      quantity = 5,
      othersDeliveredAt = visibleIn(0),
      lastSentAt = null,
    }: {
      readonly theirs: number;
      readonly quantity?: number;
      readonly othersDeliveredAt?: Date | null;
      readonly lastSentAt?: Date | null;
    },
    expected: Partial<AttemptOutcome>,
  ) => {
    const outcome = compareUsage(
      { quantity, lastSentAt },
      theirs,
      { explained: 20, lastDeliveredAt: othersDeliveredAt },
      LAG_MS,
      NOW,
    );
    t.like(outcome, expected);
  },
  title: (title = "") => title,
});

test(
  "an event is delivered if the processor has all others and this one",
  compares,
  { theirs: 25 },
  {
    kind: "delivered",
  },
);
test(
  "an event is absent if the processor has exactly the others",
  compares,
  { theirs: 20 },
  {
    kind: "absent",
  },
);
test(
  "an event is delivered if the processor has more than all others and this one",
  compares,
  { theirs: 44 },
  { kind: "delivered" },
);
test(
  "units beyond all others are a part of this event",
  compares,
  { theirs: 24 },
  { kind: "partial", acceptedQuantity: 4 },
);
test(
  "a sum below all others is unclear",
  compares,
  { theirs: 19 },
  {
    kind: "unclear",
    reason:
      "the processor has 19 units in that minute, but 20 were delivered or acknowledged without this event's 5",
  },
);
test(
  "a refund is delivered if the processor has all others and the refund",
  compares,
  { theirs: 15, quantity: -5 },
  { kind: "delivered" },
);
test(
  "a refund is delivered if the processor has taken back more",
  compares,
  { theirs: 9, quantity: -5 },
  { kind: "delivered" },
);
test(
  "units that the processor has taken back are a part of the refund",
  compares,
  { theirs: 18, quantity: -5 },
  { kind: "partial", acceptedQuantity: -2 },
);
test(
  "a refund is absent if the processor has exactly the others",
  compares,
  { theirs: 20, quantity: -5 },
  { kind: "absent" },
);
test(
  "units beyond all others show nothing about a refund",
  compares,
  { theirs: 21, quantity: -5 },
  { kind: "unclear" },
);
test(
  "a part proves nothing while the event's own attempt may not be visible yet",
  compares,
  { theirs: 24, lastSentAt: visibleIn(1) },
  { kind: "early", afterMs: 1 },
);
test(
  "nothing is concluded while another event of the minute may not be visible yet",
  compares,
  { theirs: 25, othersDeliveredAt: visibleIn(1) },
  { kind: "early", afterMs: 1 },
);
test(
  "missing usage proves nothing while the event's own attempt may not be visible yet",
  compares,
  { theirs: 20, lastSentAt: visibleIn(60_001) },
  {
    kind: "early",
    afterMs: 60_001,
    reason: "the processor's sums may lag for another 2 minutes",
  },
);
test(
  "visible usage proves the delivery although the event's own attempt was recent",
  compares,
  { theirs: 25, lastSentAt: visibleIn(60_000) },
  { kind: "delivered" },
);
test(
  "the only event of its minute is compared immediately",
  compares,
  { theirs: 20, othersDeliveredAt: null },
  { kind: "absent" },
);

for (const { found, shares } of [
  { found: 0, shares: [0, 0, 0, 0] },
  { found: 3, shares: [3, 0, 0, 0] },
  { found: 7, shares: [5, 2, 0, 0] },
  { found: 20, shares: [5, 4, 0, 0] },
  { found: -1, shares: [0, 0, -1, 0] },
  { found: -5, shares: [0, 0, -2, -3] },
  { found: -9, shares: [0, 0, -2, -4] },
]) {
  test(`of ${found} unexplained units, events get units of their own sign up to their quantity`, (t) => {
    const quantities = [5, 4, -2, -4];
    const expected = quantities.map((quantity, index): AttemptOutcome => {
      const share = shares[index] ?? 0;
      if (share === quantity) {
        return { kind: "delivered" };
      }
      return share === 0 ? { kind: "absent" } : { kind: "partial", acceptedQuantity: share };
    });

    t.deepEqual(compareEvents(quantities, found), expected);
  });
}

for (const sign of [1, -1]) {
  test(`the share of an event of ${5 * sign} decides its outcome`, (t) => {
    const compare = (found: number) => compareEvents([5 * sign], found)[0];
    t.deepEqual(compare(5 * sign), { kind: "delivered" });
    t.deepEqual(compare(2 * sign), { kind: "partial", acceptedQuantity: 2 * sign });
    t.deepEqual(compare(0), { kind: "absent" });
  });
}
