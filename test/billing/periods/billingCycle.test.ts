import test from "ava";
import { isWithin, monthlyCycle } from "../../../modules/billing/usage.rules.ts";

const cycleEdge = test.macro({
  exec: (
    t,
    {
      billingDay,
      now,
      inside,
      outside,
    }: Readonly<Record<"now" | "inside" | "outside", string>> & { readonly billingDay: number },
  ) => {
    const cycle = monthlyCycle(billingDay, new Date(now));
    t.true(isWithin(cycle, new Date(inside)));
    t.false(isWithin(cycle, new Date(outside)));
  },
  title: (edge = "") => `the monthly cycle contains ${edge}`,
});

test("its first millisecond, but not the one before", cycleEdge, {
  billingDay: 15,
  now: "2026-05-20T00:00:00Z",
  inside: "2026-05-15T00:00:00.000Z",
  outside: "2026-05-14T23:59:59.999Z",
});
test("its last millisecond, but not the one after", cycleEdge, {
  billingDay: 15,
  now: "2026-05-20T00:00:00Z",
  inside: "2026-06-14T23:59:59.999Z",
  outside: "2026-06-15T00:00:00.000Z",
});
test("28 February but not the day before, for billing day 31 in a common year", cycleEdge, {
  billingDay: 31,
  now: "2026-03-05T00:00:00Z",
  inside: "2026-02-28T00:00:00.000Z",
  outside: "2026-02-27T23:59:59.999Z",
});
test("29 February but not the day before, for billing day 31 in a leap year", cycleEdge, {
  billingDay: 31,
  now: "2028-03-05T00:00:00Z",
  inside: "2028-02-29T00:00:00.000Z",
  outside: "2028-02-28T23:59:59.999Z",
});
test("30 April but not 31 May, for billing day 31", cycleEdge, {
  billingDay: 31,
  now: "2026-05-30T23:59:59.999Z",
  inside: "2026-04-30T00:00:00.000Z",
  outside: "2026-05-31T00:00:00.000Z",
});
test("20 December but not 20 January, for billing day 20", cycleEdge, {
  billingDay: 20,
  now: "2027-01-03T00:00:00Z",
  inside: "2026-12-20T00:00:00.000Z",
  outside: "2027-01-20T00:00:00.000Z",
});

const cycleOf = test.macro({
  exec: (t, billingDay: number, now: string, start: string, end: string) => {
    t.deepEqual(monthlyCycle(billingDay, new Date(now)), {
      start: new Date(`${start}T00:00:00Z`),
      end: new Date(`${end}T00:00:00Z`),
    });
  },
  title: (_, billingDay, now) =>
    `the monthly cycle of billing day ${String(billingDay)} at ${String(now)}`,
});

test(cycleOf, 1, "2026-01-01T00:00:00.000Z", "2026-01-01", "2026-02-01");
test(cycleOf, 1, "2026-12-31T23:59:59.999Z", "2026-12-01", "2027-01-01");
test(cycleOf, 28, "2026-02-27T23:59:59.999Z", "2026-01-28", "2026-02-28");
test(cycleOf, 28, "2028-02-29T00:00:00.000Z", "2028-02-28", "2028-03-28");
test(cycleOf, 29, "2026-02-28T00:00:00.000Z", "2026-02-28", "2026-03-29");
test(cycleOf, 29, "2028-02-28T23:59:59.999Z", "2028-01-29", "2028-02-29");
test(cycleOf, 30, "2028-02-29T00:00:00.000Z", "2028-02-29", "2028-03-30");
test(cycleOf, 31, "2026-01-31T00:00:00.000Z", "2026-01-31", "2026-02-28");
test(cycleOf, 31, "2026-01-30T23:59:59.999Z", "2025-12-31", "2026-01-31");
test(cycleOf, 31, "2026-04-29T23:59:59.999Z", "2026-03-31", "2026-04-30");
test(cycleOf, 31, "2026-12-31T00:00:00.000Z", "2026-12-31", "2027-01-31");
// 2100 is no leap year; 2000 is one.
test(cycleOf, 31, "2100-02-28T00:00:00.000Z", "2100-02-28", "2100-03-31");
test(cycleOf, 31, "2000-02-28T23:59:59.999Z", "2000-01-31", "2000-02-29");

test("monthly cycles have no gaps and last 28 to 31 days, for every billing day", (t) => {
  const dayMs = 24 * 60 * 60 * 1000;
  const lengths = new Set<number>();
  for (let billingDay = 1; billingDay <= 31; billingDay += 1) {
    let { end } = monthlyCycle(billingDay, new Date("2023-12-31T23:59:59.999Z"));
    for (let month = 0; month < 60; month += 1) {
      const next = monthlyCycle(billingDay, end);
      const last = new Date(next.end.getTime() - 1);
      const lastDay = new Date(
        Date.UTC(next.start.getUTCFullYear(), next.start.getUTCMonth() + 1, 0),
      ).getUTCDate();
      t.deepEqual(next.start, end);
      t.is(next.start.getUTCDate(), Math.min(billingDay, lastDay));
      t.deepEqual(monthlyCycle(billingDay, last), next);
      lengths.add((next.end.getTime() - next.start.getTime()) / dayMs);
      end = next.end;
    }
  }
  t.deepEqual(
    [...lengths].toSorted((a, b) => a - b),
    [28, 29, 30, 31],
  );
});
