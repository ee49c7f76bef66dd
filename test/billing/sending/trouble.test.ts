import {
  decideNextStep,
  withJitter,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";
import type {
  AttemptOutcome,
  Delay,
  NextStep,
  SendingEvent,
} from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { SHARDS, shardOf } from "../../../db/shards.rules.ts";
import { sendMeterEvent } from "../drainUsage.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

const SECOND = 1_800_000_000;

const EVENT: SendingEvent = {
  processor: "stripe",
  second: SECOND,
  attempts: 1,
  firstAttemptAt: null,
  outcomeUnknown: false,
  inDoubtSince: null,
};

const delayAfter = (outcome: AttemptOutcome, attempts: number): Delay => {
  const step = decideNextStep({ ...EVENT, attempts }, outcome, new Date(SECOND * 1000 + 5000));
  if (step.kind !== "delayed") {
    throw new Error(`The step is ${step.kind}.`);
  }
  return step;
};

const tooMany: AttemptOutcome = { kind: "rate_limited", reason: "too many calls" };

test("too many calls delay an event like any failure that accepted nothing", (t) => {
  const delay = delayAfter(tooMany, 3);
  t.like(delay, { cause: "rate_limited", afterMs: 4000, outcomeUnknown: false, newKey: false });
  t.is(withJitter(delay, 0.5).afterMs, 3000);
});

test("the shard of an account is the last byte of its id modulo the number of shards", (t) => {
  t.is(SHARDS, 4);
  t.is(shardOf("01920000-0000-7000-8000-000000000000"), 0);
  t.is(shardOf("01920000-0000-7000-8000-0000000000ff"), 3);
  t.is(shardOf("01920000-0000-7000-8000-0000000000F6"), 2);
});

const HOUR = 60 * 60;

/** The step for an event whose second begins later, by this many seconds. */
const stepAhead = (
  seconds: number,
  changes: Partial<SendingEvent>,
  outcome: AttemptOutcome | null = null,
): NextStep =>
  decideNextStep({ ...EVENT, ...changes }, outcome, new Date((SECOND - seconds) * 1000));

const EARLY = { kind: "delayed", cause: "early", afterMs: 60_000 } as const;

test("an event that is ahead waits for ten attempts, and is then superseded", (t) => {
  t.like(stepAhead(HOUR, { attempts: 10 }), EARLY);
  t.like(stepAhead(HOUR, { attempts: 11 }), {
    kind: "settled",
    state: "superseded",
    reason: "ahead of the processor's clock; sealed anew once its second is over",
  });
  t.deepEqual(stepAhead(240, { attempts: 11 }), { kind: "send" });
});

test("an event that is ahead and may have been accepted waits while its identifier will be trusted in its second", (t) => {
  const unknown = { outcomeUnknown: true, attempts: 11 };
  t.like(stepAhead(20 * HOUR, unknown), EARLY);
  t.like(stepAhead(20 * HOUR + 1, { ...unknown, attempts: 10 }), EARLY);
  t.like(stepAhead(20 * HOUR + 1, unknown), {
    kind: "delayed",
    cause: "in_doubt",
    outcomeUnknown: true,
  });
});

test("an event that a check found absent is not superseded for being ahead, because sums may lag", (t) => {
  const absent = { kind: "absent" } as const;
  t.like(stepAhead(HOUR, { outcomeUnknown: true, attempts: 11 }, absent), EARLY);
});

test("each event's delay counts its own failures, so a stream whose calls often fail does not fall behind", async (t) => {
  const { double, register, pass, drainOnce, billed, recorded } = await setUpBilling(t);
  for (let count = 1; count <= 8; count += 1) {
    double.control.addFault({ kind: "server_error", mentioning: `:${double.control.now()}:` });
    await register(count);
    pass(1);
  }
  pass(5);

  for (let count = 1; count <= 8; count += 1) {
    const result = await drainOnce();
    t.true(result.kind === "delayed" && result.afterMs <= 1000);
  }
  t.is((await drainOnce()).kind, "done");

  t.deepEqual(billed(), await recorded());
});

const givesWay = test.macro({
  exec: async (t, lead: number, faults: readonly Fault[]) => {
    const { register, pass, deps, seal, drain, double, billed, recorded, events } =
      await setUpBilling(t);
    const { control } = double;
    pass(lead);
    const ahead = control.now();
    await register(5);
    pass(5);
    const { id = 0n } = (await seal()) ?? {};
    const fast = deps.clock.now();
    pass(-lead);
    for (const fault of faults) {
      control.addFault(fault);
    }
    const { signal } = new AbortController();
    t.like(await sendMeterEvent({ ...deps, clock: { now: () => fast } }, id, signal), {
      kind: "delayed",
      cause: "retry",
    });

    // Our clock is corrected.
    const second = control.now();
    await register(7);
    await drain();

    t.true(control.now() < ahead);
    t.deepEqual(billed(), { [second]: 7 });
    t.deepEqual(await events(), [
      { state: "superseded", quantity: 5 },
      { state: "delivered", quantity: 7 },
    ]);
    control.holdClock({ second: ahead });
    await drain();
    t.deepEqual(billed(), { [second]: 7, [ahead]: 5 });
    t.deepEqual(billed(), await recorded());
  },
  title: (call = "") => `after a fast clock is corrected, usage does not wait for usage ${call}`,
});
test("that Stripe refused as ahead of its clock", givesWay, 2 * HOUR, []);
test("whose call was lost", givesWay, 48 * HOUR, [{ kind: "drop" }]);
