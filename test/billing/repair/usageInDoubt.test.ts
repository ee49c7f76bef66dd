import test from "ava";
import { groupByMinute } from "../../../domain/billing/repair/usageInDoubt.ts";

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

test("without a customer, each account has separate groups", (t) => {
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
