import type { ExecutionContext } from "ava";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listFailedMeterEventIds } from "../../../modules/billing/meterEventReports.sql.ts";
import {
  findUnfinishedMeterEvent,
  findMeterEvent,
} from "../../../modules/billing/meterEvents.sql.ts";
import {
  beginAttempts,
  recordDelays,
  renewLease,
  settleAttempts,
} from "../../../modules/billing/sending/attempts.sql.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { retryUsage } from "../../../modules/billing/reconciliation/retryUsage.ts";
import { sendMeterEvent } from "../drainUsage.ts";
import { waiveUsage } from "../../../modules/billing/reconciliation/closeUsage.ts";
import { checkRefund } from "../../../modules/registrations/refundRegistration.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { setUpBilling } from "../billingSetup.ts";
import type { BillingSetup } from "../billingSetup.ts";
import { until } from "../stripe/stripeSetup.ts";

const test = testWithDatabase();

/** Longer than Stripe's sums may lag. */
const LAG_SECONDS = 16 * 60;

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
      customer: { accountId: stream.accountId, customerId },
      kind: "tree",
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
      retryAt: clock.now(),
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

const lost: Fault = { kind: "drop" };
const lostButAccepted: Fault = { kind: "drop", applied: true };
const refused: Fault = {
  kind: "respond",
  status: 400,
  body: { error: { type: "invalid_request_error", message: "No such customer: 'cus_gone'" } },
};

/** Registers two trees in one minute, one at a time. The faults hit their attempts in order. */
const registerTwo = async (
  { register, pass, drainOnce, double }: BillingSetup,
  faults: readonly Fault[],
): Promise<void> => {
  await register(1);
  pass(20);
  await register(1);
  pass(5);
  for (const fault of faults) {
    double.control.addFault(fault);
  }
  // After a refused event the sender continues; after a lost call it pauses.
  for (const { kind } of faults) {
    if (kind === "drop") {
      await drainOnce();
    }
  }
};

const failedIds = ({ deps, stream }: BillingSetup) => listFailedMeterEventIds(deps.db, stream);

const sumOf = (quantities: Readonly<Record<number, number>>): number =>
  Object.values(quantities).reduce((sum, quantity) => sum + quantity, 0);

test("nothing is concluded from the processor's sums while another event of the minute is being sent", async (t) => {
  const setup = await setUpBilling(t);
  const { events, drain, pass, retryFailed, billed, recorded } = setup;
  await registerTwo(setup, [lost, refused, lostButAccepted]);
  t.deepEqual(
    (await events()).map(({ state }) => state),
    ["blocked", "sending"],
  );

  await t.throwsAsync(retryFailed(), { instanceOf: DomainError, message: /is being sent/u });
  await drain();
  pass(LAG_SECONDS);
  t.deepEqual(await retryFailed(), ["waiting"]);
  await drain();

  t.deepEqual(billed(), await recorded());
});

test("of two failed events of one minute that are retried concurrently, only one is retried", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, double, events, drain, pass, billed, recorded } = setup;
  await registerTwo(setup, [lostButAccepted, refused, lost, refused]);
  await drain();
  t.deepEqual(
    (await events()).map(({ state }) => state),
    ["blocked", "blocked"],
  );
  pass(LAG_SECONDS);
  double.control.addFault({
    kind: "hold",
    method: "GET",
    path: `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`,
    times: 2,
  });

  const retrying = (await failedIds(setup)).map((id) => retryUsage(deps, id));
  await eventually(() => double.control.held() === 2);
  double.control.release();
  const results = await Promise.allSettled(retrying);

  t.deepEqual(results.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
  const rejected = results.find((result) => result.status === "rejected");
  t.regex(String(rejected?.reason), /changed in the meantime/u);
  pass(LAG_SECONDS);
  t.deepEqual(await setup.retryFailed(), ["waiting"]);
  await drain();
  // Stripe's sums are per minute, so it stays unknown which of the two it had.
  t.is(sumOf(billed()), sumOf(await recorded()));
});

test("an event whose attempt may be in progress cannot be retried", async (t) => {
  const { deps, seal, register, pass } = await setUpBilling(t);
  await register(4);
  pass(5);
  const { id = 0n } = (await seal()) ?? {};
  const now = deps.clock.now();
  await beginAttempts(deps.db, [id], { now, until: new Date(now.getTime() + 15_000) });

  await t.throwsAsync(retryUsage(deps, id, { assumed: "absent", customerId: null }), {
    instanceOf: DomainError,
    message: /is sending: there is nothing to retry/u,
  });
});

test("a rejected event cannot be assumed to be delivered", async (t) => {
  const { register, drain, double, events, retryAs, billed, recorded } = await setUpBilling(t);
  double.control.addFault(refused);
  await register(4);
  await drain();

  await t.throwsAsync(retryAs("delivered"), {
    instanceOf: DomainError,
    message: / is rejected: the processor does not have it/u,
  });
  t.deepEqual(await events(), [{ state: "rejected", quantity: 4 }]);
  t.deepEqual(await retryAs("absent"), ["waiting"]);
  await drain();
  t.deepEqual(billed(), await recorded());
});

test("neither waived usage nor its refunds are sent, and they are no drift", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, refund, drain, double, events, billed, pass } = setup;
  double.control.addFault(refused);
  const id = await register(9);
  await drain();
  const [failed = 0n] = await failedIds(setup);

  await waiveUsage(deps, failed, "invoiced by hand");
  await refund(id, 4);
  await drain();

  t.deepEqual(await events(), [
    { state: "waived", quantity: 9 },
    { state: "held", quantity: -4 },
  ]);
  t.deepEqual(billed(), {});
  t.is(await checkRefund(deps, id), "settled");
  t.regex(
    (await findMeterEvent(deps.db, failed))?.lastError ?? "",
    /^waived: invoiced by hand; before: No such customer: 'cus_gone'/u,
  );
  pass(LAG_SECONDS);
  const report = await reconcileUsage(
    deps,
    { accountId: setup.stream.accountId },
    new AbortController().signal,
  );
  t.deepEqual(report.streams, []);
  await t.throwsAsync(waiveUsage(deps, failed, "again"), {
    message: /is waived/u,
  });
});

test("usage that was waived by mistake is billed after a retry, minus its refunds", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, refund, drain, double, billed, recorded } = setup;
  double.control.addFault(refused);
  const id = await register(9);
  await drain();
  const [failed = 0n] = await failedIds(setup);
  await waiveUsage(deps, failed, "by mistake");
  await refund(id, 4);
  await drain();

  t.is(await retryUsage(deps, failed), "waiting");
  await drain();

  t.deepEqual(billed(), await recorded());
});

test("a customer for which nothing was accepted is not compared", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, stream, register, drain, double, pass, retryFailed } = setup;
  double.control.addFault(refused);
  await register(4);
  await drain();
  const { customerId } = double.control.addSubscriber({});
  await updateAccount(deps.db, stream.accountId, { stripeCustomerId: customerId });
  t.deepEqual(await retryFailed(), ["waiting"]);
  await drain();
  pass(LAG_SECONDS);

  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);

  t.deepEqual(
    streams.map((report) => [report.customerId, report.drift]),
    [[customerId, 0]],
  );
});
