import test from "ava";
import {
  allotShares,
  groupByMinute,
  resultOf,
} from "../../../domain/billing/repair/usageInDoubt.ts";

const MINUTE = Date.UTC(2026, 4, 15, 12) / 1000;

const eventOf = (id: bigint, changes: Partial<Parameters<typeof groupByMinute>[0][number]>) => ({
  id,
  processor: "stripe" as const,
  customerId: "cus_1",
  accountId: "a",
  meter: "tree" as const,
  second: MINUTE,
  quantity: 5,
  ...changes,
});

const idsByMinute = (events: Parameters<typeof groupByMinute>[0]) =>
  groupByMinute(events).map((minute) => minute.map(({ id }) => id));

test("events that the processor sums together are one group, whichever account they belong to", (t) => {
  t.deepEqual(
    idsByMinute([
      eventOf(1n, {}),
      eventOf(2n, { second: MINUTE + 59, accountId: "b" }),
      eventOf(3n, { second: MINUTE + 60 }),
      eventOf(4n, { meter: "bottle" }),
      eventOf(5n, { customerId: "cus_2" }),
      eventOf(6n, { processor: "ledger" }),
    ]).toSorted(([a = 0n], [b = 0n]) => Number(a - b)),
    [[1n, 2n], [3n], [4n], [5n], [6n]],
  );
});

test("without a customer, each account has groups of its own", (t) => {
  const events = [
    eventOf(1n, { customerId: null }),
    eventOf(2n, { customerId: null, accountId: "b" }),
  ];

  t.deepEqual(idsByMinute(events), [[1n], [2n]]);
});

test("a group has usage before refunds, and the sealings of a stream in their order", (t) => {
  const events = [
    eventOf(4n, { quantity: -1 }),
    eventOf(3n, {}),
    eventOf(2n, { second: MINUTE + 1 }),
    eventOf(1n, {}),
  ];

  t.deepEqual(idsByMinute(events), [[1n, 3n, 2n, 4n]]);
});

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
    t.deepEqual(allotShares([5, 4, -2, -4], found), shares);
  });
}

for (const sign of [1, -1]) {
  test(`the share of an event of ${5 * sign} decides its result`, (t) => {
    t.is(resultOf(5 * sign, 5 * sign), "delivered");
    t.is(resultOf(5 * sign, 2 * sign), "partial");
    t.is(resultOf(5 * sign, 0), "absent");
  });
}
