import test from "ava";
import {
  decideNextStep,
  LEASED,
  staysInShard,
  STRIPE_MISSING,
  withJitter,
} from "../../../domain/billing/decideNextStep.ts";
import type { AttemptOutcome, Delay } from "../../../domain/billing/decideNextStep.ts";
import { SHARDS, shardOf } from "../../../domain/billing/usage.ts";

const delayAfter = (outcome: AttemptOutcome, attempts: number): Delay => {
  const step = decideNextStep(
    {
      processor: "stripe",
      second: 1_800_000_000,
      attempts,
      firstAttemptAt: null,
      outcomeUnknown: false,
      inDoubtSince: null,
    },
    outcome,
    new Date(1_800_000_005_000),
  );
  if (step.kind !== "delayed") {
    throw new Error(`The step is ${step.kind}.`);
  }
  return step;
};

const failed: AttemptOutcome = { kind: "retry", reason: "a reset", outcomeUnknown: true };
const tooMany: AttemptOutcome = { kind: "rate_limited", reason: "too many calls" };

test("too many calls delay an event like any failure that accepted nothing", (t) => {
  const delay = delayAfter(tooMany, 3);
  t.like(delay, { cause: "rate_limited", afterMs: 4000, outcomeUnknown: false, newKey: false });
  t.is(withJitter(delay, 0.5).afterMs, 3000);
});

test("a stream is in trouble after the third failure of its event", (t) => {
  t.true(staysInShard(delayAfter(failed, 1), { attempts: 1 }));
  t.true(staysInShard(delayAfter(failed, 2), { attempts: 2 }));
  t.false(staysInShard(delayAfter(failed, 3), { attempts: 3 }));
});

test("too many calls are no trouble of a stream, however often", (t) => {
  t.true(staysInShard(delayAfter(tooMany, 50), { attempts: 50 }));
});

test("a stream that waits for an operator, the processor's sums or another attempt is in trouble at once", (t) => {
  t.false(staysInShard(STRIPE_MISSING, { attempts: 1 }));
  t.false(staysInShard(LEASED, { attempts: 1 }));
  t.false(staysInShard(delayAfter({ kind: "conflict", reason: "x" }, 1), { attempts: 1 }));
  t.false(staysInShard(delayAfter({ kind: "early", reason: "x", afterMs: 1 }, 1), { attempts: 1 }));
});

test("the shard of an account is the rest of its id's last byte", (t) => {
  t.is(SHARDS, 4);
  t.is(shardOf("01920000-0000-7000-8000-000000000000"), 0);
  t.is(shardOf("01920000-0000-7000-8000-0000000000ff"), 3);
  t.is(shardOf("01920000-0000-7000-8000-0000000000F6"), 2);
});
