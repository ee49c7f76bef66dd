import test from "ava";
import {
  currentCallsPerSecond,
  lowerCallRate,
  reserveCalls,
} from "../../../domain/billing/callRate.ts";

const FULL = {
  callsPerSecond: 1000,
  maximumCallsPerSecond: 1000,
  secondsSinceChange: 60,
  reservedSeconds: -60,
};

test("calls are reserved a second ahead at most, after those that others have reserved", (t) => {
  t.deepEqual(reserveCalls(FULL, 2000), {
    calls: 1000,
    startsInSeconds: 0,
    intervalSeconds: 0.001,
  });
  t.deepEqual(reserveCalls({ ...FULL, reservedSeconds: 0.9 }, 2000), {
    calls: 100,
    startsInSeconds: 0.9,
    intervalSeconds: 0.001,
  });
  t.is(reserveCalls({ ...FULL, reservedSeconds: 1 }, 1).calls, 0);
});

test("the longest reservation, of a call at the lowest rate, is respected whatever the rate is now", (t) => {
  const slow = { ...FULL, callsPerSecond: 1, secondsSinceChange: 0, reservedSeconds: 0.99 };
  const { calls, startsInSeconds, intervalSeconds } = reserveCalls(slow, 10);
  const reservedSeconds = startsInSeconds + calls * intervalSeconds;

  t.is(reservedSeconds, 1.99);
  t.is(reserveCalls({ ...FULL, reservedSeconds }, 1).calls, 0);
});

test("a reservation that no worker can have made is from before the clock was set back, and is ignored", (t) => {
  for (const reservedSeconds of [2.1, 9, 3600]) {
    t.deepEqual(reserveCalls({ ...FULL, reservedSeconds }, 2000), reserveCalls(FULL, 2000));
  }
});

test("no more calls are reserved than wanted", (t) => {
  t.is(reserveCalls(FULL, 3).calls, 3);
});

test("one call is reserved even at the lowest rate", (t) => {
  const slow = { ...FULL, callsPerSecond: 1, secondsSinceChange: 0 };
  t.deepEqual(reserveCalls(slow, 10), { calls: 1, startsInSeconds: 0, intervalSeconds: 1 });
});

test("a rejected call lowers the rate every 1.5 seconds at most, and never below one call", (t) => {
  t.is(lowerCallRate(FULL), 700);
  t.is(lowerCallRate({ ...FULL, callsPerSecond: 700, secondsSinceChange: 1.4 }), null);
  t.is(lowerCallRate({ ...FULL, callsPerSecond: 1, secondsSinceChange: 1.5 }), 1);
});

test("a lowered rate rises by a tenth a second up to the maximum, whatever the clock does", (t) => {
  const lowered = { ...FULL, callsPerSecond: 500 };
  t.is(Math.round(currentCallsPerSecond({ ...lowered, secondsSinceChange: 1 })), 550);
  t.is(currentCallsPerSecond({ ...lowered, secondsSinceChange: 1e9 }), 1000);
  t.is(currentCallsPerSecond({ ...lowered, secondsSinceChange: -3600 }), 500);
});

test("another maximum counts immediately", (t) => {
  t.is(currentCallsPerSecond({ ...FULL, maximumCallsPerSecond: 25 }), 25);
  t.is(currentCallsPerSecond({ ...FULL, maximumCallsPerSecond: 5000 }), 5000);
});
