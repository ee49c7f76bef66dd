import test from "ava";
import {
  foldableUntil,
  latestFoldTime,
  nextSeconds,
  requireSameUnits,
  requireSettledAge,
} from "../../../modules/billing/folding/foldUsage.rules.ts";

const NOW = new Date("2026-05-20T12:00:00Z");
const day = (text: string): Date => new Date(`${text}T00:00:00Z`);
const until = (
  before: string,
  periods: readonly (readonly [string, string])[] = [],
  billingDay = 1,
): string =>
  foldableUntil(
    day(before),
    { billingDay, periods: periods.map(([start, end]) => ({ start: day(start), end: day(end) })) },
    NOW,
  )
    .toISOString()
    .slice(0, 10);

test("usage is old enough 36 days after it was registered", (t) => {
  t.is(latestFoldTime(NOW).toISOString(), "2026-04-14T12:00:00.000Z");
  t.notThrows(() => requireSettledAge(latestFoldTime(NOW), NOW));
  t.throws(() => requireSettledAge(new Date("2026-04-14T12:00:00.001Z"), NOW), {
    message:
      "--before must be 2026-04-14T12:00:00.000Z or earlier: usage of the last 36 days may still be corrected",
  });
});

test("a month is folded once it has ended for 36 days", (t) => {
  t.is(until("2026-03-01"), "2026-03-01");
  t.is(until("2026-04-10"), "2026-04-01");
  t.is(until("2026-04-10", [], 15), "2026-03-15");
  t.is(until("2026-04-10", [], 14), "2026-04-10");
});

test("a billing period of the processor is folded once it has ended for 36 days", (t) => {
  t.is(until("2026-04-10", [["2026-01-07", "2027-01-07"]]), "2026-01-07");
  t.is(until("2025-04-10", [["2026-01-07", "2027-01-07"]]), "2025-04-10");
  // It has been renewed meanwhile.
  t.is(
    until("2026-04-10", [
      ["2025-05-01", "2026-05-01"],
      ["2026-05-01", "2027-05-01"],
    ]),
    "2025-05-01",
  );
  // Two subscriptions after each other, and none in April.
  t.is(until("2026-04-10", [["2024-01-07", "2025-01-07"]]), "2026-04-01");
});

test("a transaction that would change any sum is refused", (t) => {
  const sums = { registered: 5n, refunded: 1n, registeredBySecond: 5n, refundedBySecond: 1n };
  const deleted = { units: 2n, registered: 3n, refunded: 1n };
  const after = { registered: 8n, refunded: 2n, registeredBySecond: 8n, refundedBySecond: 2n };
  t.notThrows(() => requireSameUnits(sums, deleted, after));
  for (const wrong of [
    { ...deleted, units: 3n },
    { ...deleted, registered: 4n, units: 3n },
    { ...deleted, refunded: 0n, units: 3n },
  ]) {
    t.throws(() => requireSameUnits(sums, wrong, after), { message: /would change sums/u });
  }
  for (const wrong of [
    { ...after, registered: 9n },
    { ...after, refunded: 3n },
    { ...after, registeredBySecond: 9n },
    { ...after, refundedBySecond: 3n },
  ]) {
    t.throws(() => requireSameUnits(sums, deleted, wrong), { message: /would change sums/u });
  }
});

test("a transaction takes about 20,000 facts, and at least one second", (t) => {
  t.is(nextSeconds({ seconds: 20, facts: 20 }), 1000);
  t.is(nextSeconds({ seconds: 20, facts: 2000 }), 200);
  t.is(nextSeconds({ seconds: 1, facts: 1_000_000 }), 1);
  t.is(nextSeconds({ seconds: 20, facts: 0 }), 1000);
});
