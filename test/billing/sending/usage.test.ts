import test from "ava";
import {
  lastSealableSecond,
  MAXIMUM_QUANTITY,
  meterEventIdentifierStem,
  minuteOf,
  secondOf,
} from "../../../domain/billing/usage.ts";

const SECOND = 1_800_000_000;
test("a time belongs to the second in which it lies, up to the last millisecond", (t) => {
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

test("a second belongs to the minute that starts at a whole multiple of 60 seconds", (t) => {
  t.deepEqual(minuteOf(SECOND), { start: SECOND, end: SECOND + 60 });
  t.deepEqual(minuteOf(SECOND + 59), { start: SECOND, end: SECOND + 60 });
  t.deepEqual(minuteOf(SECOND + 60), { start: SECOND + 60, end: SECOND + 120 });
});

test("the largest quantity is the last number of 15 digits", (t) => {
  t.is(String(MAXIMUM_QUANTITY).length, 15);
  t.is(String(MAXIMUM_QUANTITY + 1).length, 16);
});
