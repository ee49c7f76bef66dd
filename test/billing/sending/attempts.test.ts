import { REFUSED } from "../../stripeDouble/faults.ts";
import type { ExecutionContext } from "ava";
import { findMeterEvent } from "../../../modules/billing/meterEvents.sql.ts";
import { early } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { recordOutcomes } from "../../../modules/billing/sending/attempts.sql.ts";
import { retryUsage } from "../../../modules/billing/reconciliation/repairUsage.ts";
import { beginAttempt, finishAttempt } from "../drainUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import { listFailedEvents, setUpBilling } from "../billingSetup.ts";
import { eventually } from "../../support/programs.ts";
import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import type { BillingSetup } from "../billingSetup.ts";

const test = testWithDatabase();

/** Longer than Stripe's sums may lag. */
const LAG_SECONDS = 16 * 60;
const never = new AbortController().signal;

test("a lease from before the clock was set back by an hour delays nothing", async (t) => {
  const { register, pass, seal, drain, drainOnce, billed, recorded, sends } = await setUpBilling(t);
  await register(4);
  pass(3600);
  await seal();
  pass(5 - 3600);

  t.deepEqual(await drainOnce(), { kind: "done" });
  await drain();

  t.is(sends(), 1);
  t.deepEqual(billed(), await recorded());
});

test("an attempt can no longer change its event once another attempt has begun", async (t) => {
  const { register, pass, deps, seal, drain, billed, recorded, events } = await setUpBilling(t);
  const { db, clock } = deps;
  await register(4);
  pass(5);
  const event = (await seal()) ?? t.fail();
  t.is(await seal(), null);
  pass(15);
  const latest = await seal();

  for (const result of [
    { ...early("late", 0), newKey: true },
    { kind: "settled", state: "failed", failure: "refused", reason: "late" },
  ] as const) {
    t.deepEqual(await recordOutcomes(db, [{ event, result, now: clock.now() }]), []);
  }

  t.like(await findMeterEvent(db, event.id), {
    state: "pending",
    attempts: 2,
    leasedUntil: latest?.leasedUntil,
    keyGeneration: 0,
    lastError: null,
  });
  await drain();
  t.deepEqual(await events(), [{ state: "delivered", quantity: 4 }]);
  t.deepEqual(billed(), await recorded());
});

test("a process that asks about an event records nothing if another one has answered meanwhile", async (t) => {
  const { register, pass, drainOnce, drain, double, sends, billed, recorded } =
    await setUpBilling(t);
  const { control } = double;
  await register(4);
  pass(5);
  control.addFault({ kind: "drop", times: 2 });
  await drainOnce();
  pass(21 * 3600);
  t.like(await drainOnce(), { kind: "delayed", cause: "asking" });
  pass(LAG_SECONDS);
  const path = `/v1/billing/meters/${control.meterIds().tree}/event_summaries`;
  control.addFault({ kind: "hold", method: "GET", path });
  const late = drainOnce();
  await eventually(() => control.held() === 1);
  pass(16);
  await drain();
  const before = sends();

  control.release();

  t.like(await late, { kind: "delayed", cause: "early" });
  t.is(sends(), before);
  await drain();
  t.deepEqual(billed(), await recorded());
});

for (const clock of ["monotonic", "wall"] as const) {
  test(`a process that was frozen after acquiring the lease does not send when the lease is over by its ${clock} clock`, async (t) => {
    const { register, pass, deps, stream, drain, sends, billed, recorded } = await setUpBilling(t);
    await register(4);
    pass(5);
    // Each reading but the first is that of a process that continues after 15 seconds.
    let readings = 0;
    const frozenMs = (): number => {
      readings += 1;
      return readings > 1 ? 15_000 : 0;
    };
    const startedMs = deps.clock.now().getTime();
    const frozen =
      clock === "monotonic"
        ? { ...deps, monotonicMs: frozenMs }
        : { ...deps, clock: { now: () => new Date(startedMs + frozenMs()) } };

    const result = await finishAttempt(frozen, await beginAttempt(frozen, stream));

    t.like(result, { kind: "delayed", cause: "retry", outcomeUnknown: false });
    t.is(sends(), 0);
    await drain();
    t.is(sends(), 1);
    t.deepEqual(billed(), await recorded());
  });
}

test("at most one event of a stream is being sent", async (t) => {
  const { register, pass, deps, stream, seal, drain, billed, recorded, double } =
    await setUpBilling(t);
  double.control.addFault({ ...REFUSED, times: 2 });
  await register(1);
  pass(10);
  await register(2);
  await drain();
  for (const id of await listFailedEvents(deps.db, stream)) {
    t.is((await retryUsage(deps, id)).retry, "send");
  }

  const both = await Promise.all([seal(), seal()]);
  t.is(both.filter((event) => event !== null).length, 1);
  t.is(await seal(), null);

  await drain();
  t.deepEqual(billed(), await recorded());
  t.is(double.control.overlaps(), 0);
});

const HOUR = 60 * 60;

for (const [call, lead, faults] of [
  ["that Stripe refused as ahead of its clock", 2 * HOUR, []],
  ["whose call was lost", 48 * HOUR, [{ kind: "drop" }]],
] as const) {
  test(`after a fast clock is corrected, usage does not wait for usage ${call}`, async (t) => {
    const { register, pass, deps, stream, drain, double, billed, recorded, events, retryFailed } =
      await setUpBilling(t);
    const { control } = double;
    pass(lead);
    const ahead = control.now();
    await register(5);
    pass(5);
    const begun = await beginAttempt(deps, stream);
    const fast = { ...deps, clock: { now: () => begun.started.at } };
    pass(-lead);
    faults.forEach(control.addFault);
    t.like(await finishAttempt(fast, begun), { kind: "delayed", cause: "retry" });

    // Our clock is corrected.
    const second = control.now();
    await register(7);
    await drain();

    t.true(control.now() < ahead);
    t.deepEqual(billed(), { [second]: 7 });
    t.deepEqual(await events(), [
      { state: "refused", quantity: 5 },
      { state: "delivered", quantity: 7 },
    ]);
    control.holdClock({ second: ahead });
    await retryFailed();
    await drain();
    t.deepEqual(billed(), { [second]: 7, [ahead]: 5 });
    t.deepEqual(billed(), await recorded());
  });
}

/**
 * Sends usage under the identifier of the next meter event of the current second, as a database did that lost its latest
 * transactions.
 */
const sendBeforeLoss = async (
  t: ExecutionContext,
  { deps, stream, customerId, double }: BillingSetup,
  quantity: number,
): Promise<void> => {
  const second = double.control.now();
  const identifier = `u1:${stream.accountId}:live:tree:${second}:1`;
  const event = {
    identifier,
    customerId,
    kind: "tree",
    quantity,
    second,
    keyGeneration: 0,
  } as const;
  t.is((await deps.billing.stripe?.send(event, never))?.kind, "delivered");
};

for (const [ours, theirs] of [
  [52, 76],
  [19, 28],
  [52, 24],
] as const) {
  test(`of ${ours} units in a second of which Stripe has ${theirs} under the same identifier, nothing is sent, and the difference is found`, async (t) => {
    const setup = await setUpBilling(t, { summaryDelaySeconds: 300 });
    const { register, drain, pass, billed, double } = setup;
    const second = double.control.now();
    await register(ours);
    await sendBeforeLoss(t, setup, theirs);

    await drain();

    t.deepEqual(billed(), { [second]: theirs });
    pass(LAG_SECONDS);
    const { streams } = await reconcileUsage(setup.deps, setup.stream, never);
    const differing = streams.flatMap(({ differences }) => differences);
    const units = differing.reduce((sum, difference) => sum + difference.units, 0);
    t.is(units, theirs - ours);
    t.deepEqual(double.control.problems(), []);
  });
}

test("usage whose identifier conflicts is never refused or sent again before Stripe's sums are complete", async (t) => {
  const setup = await setUpBilling(t);
  const { register, pass, drainOnce, deps, stream, sends } = setup;
  await register(52);
  await sendBeforeLoss(t, setup, 24);
  pass(5);

  t.like(await drainOnce(), { kind: "delayed", cause: "asking" });
  const before = sends();
  const [event] = await listMeterEvents(deps.db, { state: null, ...stream, limit: 1 });
  t.like(event, { state: "pending", mayBeDelivered: true, askingSince: deps.clock.now() });
  pass(10 * 60);
  t.like(await drainOnce(), { kind: "delayed", cause: "early", afterMs: 5 * 60 * 1000 });

  t.is(sends(), before);
  t.deepEqual(await listFailedEvents(deps.db, stream), []);
});

test("usage whose identifier Stripe has used without billing it is sent under a new one", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, billed, events, recorded, double } = setup;
  await register(52);
  double.control.addFault({ kind: "reject_later" });
  await sendBeforeLoss(t, setup, 76);

  await drain();

  t.deepEqual(billed(), await recorded());
  t.deepEqual(await events(), [{ state: "delivered", quantity: 52 }]);
  t.regex(double.control.events().at(-1)?.identifier ?? "", /:1\.1$/u);
});
