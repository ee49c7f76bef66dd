import type { ExecutionContext } from "ava";
import {
  beginAttempts,
  recordDelays,
  renewLease,
  settleAttempts,
} from "../../../db/billing/sending/attempts.ts";
import { findUnfinishedMeterEvent } from "../../../db/billing/meterEvents.ts";
import { until } from "../stripe/stripeSetup.ts";
import { sendMeterEvent } from "../../../services/billing/sending/sendMeterEvent.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

test("usage is billed once if the worker is killed after recording the attempt and before sending", async (t) => {
  const { register, pass, deps, seal, drain, drainOnce, billed, recorded, sends } =
    await setUpBilling(t);
  await register(4);
  pass(5);
  const event = await seal();
  const now = deps.clock.now();
  await beginAttempts(deps.db, [event?.id ?? 0n], { now, until: new Date(now.getTime() + 25_000) });

  t.like(await drainOnce(), { kind: "delayed", cause: "leased" });
  t.is(sends(), 0);
  await drain();

  t.is(sends(), 1);
  t.deepEqual(billed(), await recorded());
});

test("a lease from before the clock was set back by an hour delays nothing", async (t) => {
  const { register, pass, deps, seal, drain, drainOnce, billed, recorded, sends } =
    await setUpBilling(t);
  await register(4);
  pass(5);
  const { id = 0n } = (await seal()) ?? {};
  const before = new Date(deps.clock.now().getTime() + 60 * 60 * 1000);
  await beginAttempts(deps.db, [id], {
    now: before,
    until: new Date(before.getTime() + 15_000),
  });

  t.deepEqual(await drainOnce(), { kind: "done" });
  await drain();

  t.is(sends(), 1);
  t.deepEqual(billed(), await recorded());
});

test("usage is billed once if the worker is killed after sending and before recording the outcome", async (t) => {
  const { register, pass, deps, stream, seal, drain, billed, recorded, sends, customerId } =
    await setUpBilling(t);
  await register(4);
  pass(5);
  const event = await seal();
  const now = deps.clock.now();
  await beginAttempts(deps.db, [event?.id ?? 0n], { now, until: new Date(now.getTime() + 25_000) });
  await deps.billing.findProcessor("stripe", "live")?.send(
    {
      identifier: event?.identifier ?? "",
      customer: { accountId: stream.accountId, customerId, subscriptionId: null },
      meter: "tree",
      quantity: 4,
      second: event?.second ?? 0,
      keyGeneration: 0,
    },
    new AbortController().signal,
  );

  await drain();

  t.is(sends(), 2);
  t.deepEqual(billed(), await recorded());
});

test("an attempt can no longer change its event once another attempt has begun", async (t) => {
  const { register, pass, deps, stream, seal, drain, billed, recorded, events } =
    await setUpBilling(t);
  const { db, clock } = deps;
  await register(4);
  pass(5);
  const { id = 0n } = (await seal()) ?? {};
  const begin = async () => {
    const now = clock.now();
    const [attempt] = await beginAttempts(db, [id], {
      now,
      until: new Date(now.getTime() + 15_000),
    });
    return attempt ?? { id, attempts: -1, leasedUntil: null };
  };
  const late = await begin();
  t.is((await begin()).attempts, -1);
  pass(15);
  const latest = await begin();

  await recordDelays(db, [
    {
      ...late,
      reason: "late",
      outcomeUnknown: false,
      newKey: true,
      inDoubtSince: null,
      retryAt: null,
    },
  ]);
  t.false(await renewLease(db, late, clock.now()));
  await settleAttempts(db, [
    {
      ...late,
      state: "rejected",
      reason: "late",
      acceptedQuantity: null,
      settledAt: clock.now(),
    },
  ]);

  t.like(await findUnfinishedMeterEvent(db, stream), {
    state: "sending",
    attempts: 2,
    leasedUntil: latest.leasedUntil,
    keyGeneration: 0,
    lastError: null,
  });
  t.true(await renewLease(db, latest, clock.now()));
  await drain();
  t.deepEqual(await events(), [{ state: "delivered", quantity: 4 }]);
  t.deepEqual(billed(), await recorded());
});

test("an attempt does not send if another one began during its check", async (t) => {
  const { register, pass, drainOnce, drain, double, sends, billed, recorded } =
    await setUpBilling(t);
  const { control } = double;
  await register(4);
  pass(5);
  control.addFault({ kind: "drop", times: 2 });
  await drainOnce();
  pass(21 * 3600);
  const path = `/v1/billing/meters/${control.meterIds().tree}/event_summaries`;
  control.addFault({ kind: "hold", method: "GET", path });
  const late = drainOnce();
  await until(() => control.held() === 1);
  pass(16);
  t.like(await drainOnce(), { kind: "delayed", cause: "retry" });
  const before = sends();

  control.release();

  t.like(await late, { kind: "delayed", cause: "leased" });
  t.is(sends(), before);
  await drain();
  t.deepEqual(billed(), await recorded());
});

const sendsNothingAfterItsLease = test.macro({
  exec: async (t: ExecutionContext<DatabaseContext>, clock: "monotonic" | "wall") => {
    const { register, pass, deps, seal, drain, sends, billed, recorded } = await setUpBilling(t);
    await register(4);
    pass(5);
    const { id = 0n } = (await seal()) ?? {};
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

    const result = await sendMeterEvent(frozen, id, new AbortController().signal);

    t.like(result, { kind: "delayed", cause: "retry", outcomeUnknown: false });
    t.is(sends(), 0);
    await drain();
    t.is(sends(), 1);
    t.deepEqual(billed(), await recorded());
  },
  title: (_, clock) =>
    `a process that was frozen after acquiring the lease does not send when the lease is over by its ${clock} clock`,
});

test(sendsNothingAfterItsLease, "monotonic");
test(sendsNothingAfterItsLease, "wall");
