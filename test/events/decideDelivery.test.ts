import test from "ava";
import {
  decideDelivery,
  decideDisabling,
  parseRetryAfter,
} from "../../modules/events/decideDelivery.rules.ts";
import type { AttemptResult } from "../../modules/events/decideDelivery.rules.ts";

const NOW = new Date("2027-01-01T00:00:00Z");
const FAILED: AttemptResult = {
  status: 500,
  error: "status 500",
  response: "",
  retryAfterMs: null,
};

const delaySeconds = (attempts: number, given: Partial<AttemptResult> = {}, random = 0.5) => {
  const { dueAt } = decideDelivery({ ...FAILED, ...given }, { attempts, now: NOW, random });
  return dueAt && (dueAt.getTime() - NOW.getTime()) / 1000;
};

test("ten attempts are made in 75 hours, and then the delivery has failed", (t) => {
  const delays = Array.from({ length: 9 }, (_, index) => delaySeconds(index + 1) ?? 0);
  t.deepEqual(
    delays.map((seconds) => seconds / 60),
    [1 / 12, 5, 30, 120, 300, 600, 840, 1200, 1440],
  );
  t.is(Math.floor(delays.reduce((sum, delay) => sum + delay, 0) / 3600), 75);
  t.deepEqual(decideDelivery(FAILED, { attempts: 10, now: NOW, random: 0.5 }), {
    state: "failed",
    dueAt: null,
  });
});

test("delays are spread by a fifth in both directions", (t) => {
  t.is(delaySeconds(2, {}, 0), 240);
  t.is(delaySeconds(2, {}, 0.999_999_9), 360);
});

test("a receiver's delay is respected up to twice the schedule's, and does not shorten it", (t) => {
  t.is(delaySeconds(2, { retryAfterMs: 400_000 }), 400);
  t.is(delaySeconds(2, { retryAfterMs: 4_000_000 }), 600);
  t.is(delaySeconds(2, { retryAfterMs: 1000 }), 300);
});

test("Retry-After is a number of seconds or a date; anything else is ignored", (t) => {
  t.is(parseRetryAfter("120", NOW), 120_000);
  t.is(parseRetryAfter("Fri, 01 Jan 2027 00:01:00 GMT", NOW), 60_000);
  t.is(parseRetryAfter("Thu, 31 Dec 2026 00:00:00 GMT", NOW), 0);
  t.is(parseRetryAfter("soon", NOW), null);
  t.is(parseRetryAfter(undefined, NOW), null);
});

test("a success ends the delivery, and a 410 ends it without another attempt", (t) => {
  t.is(decideDelivery({ ...FAILED, status: 200, error: null }, at(1)).state, "delivered");
  t.is(decideDelivery({ ...FAILED, status: 410 }, at(1)).state, "failed");
});

const at = (attempts: number) => ({ attempts, now: NOW, random: 0.5 });

test("an endpoint is disabled by a 410, and by a delivery that failed after five days of failures alone", (t) => {
  const fiveDaysAgo = new Date("2026-12-27T00:00:00Z");
  const later = new Date(fiveDaysAgo.getTime() + 1);
  t.is(decideDisabling({ status: 410 }, "failed", NOW, NOW), "gone");
  t.is(decideDisabling({ status: 500 }, "failed", fiveDaysAgo, NOW), "failing");
  t.is(decideDisabling({ status: null }, "failed", later, NOW), null);
  t.is(decideDisabling({ status: 500 }, "pending", fiveDaysAgo, NOW), null);
});
