import test from "ava";
import { monthlyCycle } from "../../../modules/billing/usage.rules.ts";

const CYCLES = [
  [15, "2026-05-14T23:59:59.999Z", "2026-04-15", "2026-05-15"],
  // 2100 is no leap year; 2000 is one.
  [31, "2100-02-28T00:00:00.000Z", "2100-02-28", "2100-03-31"],
  [31, "2000-02-28T23:59:59.999Z", "2000-01-31", "2000-02-29"],
] as const;

for (const [billingDay, now, start, end] of CYCLES) {
  test(`the monthly cycle of billing day ${billingDay} at ${now} begins on ${start}`, (t) => {
    t.deepEqual(monthlyCycle(billingDay, new Date(now)), {
      start: new Date(`${start}T00:00:00Z`),
      end: new Date(`${end}T00:00:00Z`),
    });
  });
}

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
  const sorted = [...lengths].toSorted((a, b) => a - b);
  t.deepEqual(sorted, [28, 29, 30, 31]);
});
