import test from "ava";
import { ownerKey } from "../../../modules/records/owner.rules.ts";
import type { WaitingStream } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { createWakeBackoff } from "../../../worker/createWaker.ts";

const streamOf = (accountId: string, second = 100): WaitingStream => ({
  accountId,
  mode: "live",
  kind: "tree",
  second,
  attempts: 0,
});

const START_MS = Date.UTC(2026, 0, 1);
const after = (seconds: number): Date => new Date(START_MS + seconds * 1000);

/** Simulates a pass of the dispatcher each second. Returns the seconds at which the stream was woken. */
const wakesOf = (secondAt: (pass: number) => number, passes: number): readonly number[] => {
  const backoff = createWakeBackoff<WaitingStream>(ownerKey);
  const wakes: number[] = [];
  for (let pass = 0; pass < passes; pass += 1) {
    for (const stream of backoff.due([streamOf("one", secondAt(pass))], after(pass))) {
      backoff.recordWake(stream, after(pass));
      wakes.push(pass);
    }
  }
  return wakes;
};

test("a stream whose oldest second moves on is woken at every pass", (t) => {
  t.deepEqual(
    wakesOf((pass) => 100 + pass, 6),
    [0, 1, 2, 3, 4, 5],
  );
});

test("a stream without progress is woken after exponentially growing delays", (t) => {
  t.deepEqual(
    wakesOf(() => 100, 63),
    [0, 2, 6, 14, 30, 62],
  );
});

test("a stream without progress is woken at least every minute, so a terminated sender is soon replaced", (t) => {
  const HOUR_SECONDS = 3600;
  const wakes = wakesOf(() => 100, HOUR_SECONDS);
  const gaps = wakes.slice(1).map((pass, index) => pass - (wakes[index] ?? 0));
  t.is(Math.max(...gaps), 60);
});

test("a stream that waits again after a pause is woken immediately", (t) => {
  const backoff = createWakeBackoff<WaitingStream>(ownerKey);
  const stream = streamOf("one");
  backoff.recordWake(stream, after(0));
  t.deepEqual(backoff.due([], after(1)), []);
  t.deepEqual(backoff.due([stream], after(1.5)), [stream]);
});

test("a stream is woken immediately after the clock was set back, so a terminated sender is soon replaced", (t) => {
  const backoff = createWakeBackoff<WaitingStream>(ownerKey);
  const stream = streamOf("one");
  backoff.recordWake(stream, after(3600));
  t.deepEqual(backoff.due([stream], after(0)), [stream]);
  backoff.recordWake(stream, after(0));
  t.deepEqual(backoff.due([stream], after(1)), []);
  t.deepEqual(backoff.due([stream], after(2)), [stream]);
});

test("if there are more streams than one pass may wake, the following passes wake the others", (t) => {
  const backoff = createWakeBackoff<WaitingStream>(ownerKey);
  const streams = Array.from({ length: 100 }, (_, index) => streamOf(`account-${index}`));
  const woken = new Set<string>();
  for (let pass = 0; pass < 3; pass += 1) {
    for (const stream of backoff.due(streams, after(pass * 0.1))) {
      backoff.recordWake(stream, after(pass * 0.1));
      t.false(woken.has(stream.accountId));
      woken.add(stream.accountId);
    }
  }
  t.is(woken.size, streams.length);
});

test("a stream is stuck after seven wakes without an attempt or a settled event", (t) => {
  const backoff = createWakeBackoff<WaitingStream>(ownerKey);
  const stream = streamOf("one");
  const wake = (times: number, woken = stream): void => {
    for (let count = 0; count < times; count += 1) {
      backoff.recordWake(woken, after(count));
    }
  };

  wake(6);
  t.false(backoff.isStuck(stream));
  wake(1);
  t.true(backoff.isStuck(stream));
  t.false(backoff.isStuck({ ...stream, second: 101 }));
  t.false(backoff.isStuck({ ...stream, attempts: 1 }));
  backoff.recordRestart(stream);
  t.false(backoff.isStuck(stream));
  wake(7);
  t.true(backoff.isStuck(stream));
  wake(6, { ...stream, attempts: 1 });
  t.false(backoff.isStuck({ ...stream, attempts: 1 }));
});
