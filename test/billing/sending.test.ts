import { findUnfinishedMeterEvent } from "../../db/billing/meterEvents.ts";
import { updateAccount } from "../../db/accounts/accounts.ts";
import { sumLedgerUsage } from "../../db/billing/ledgerUsage.ts";
import type { Fault } from "../stripeDouble/faults.ts";
import { testWithDatabase } from "../support/database.ts";
import { setUpBilling } from "./billingSetup.ts";

const test = testWithDatabase();

test("registrations of one second make one meter event, those of another second another", async (t) => {
  const { register, pass, drain, billed, recorded, sends } = await setUpBilling(t);
  await Promise.all([register(3), register(4), register(5)]);
  pass(1);
  await register(10);

  await drain();

  t.is(sends(), 2);
  t.deepEqual(Object.values(billed()), [12, 10]);
  t.deepEqual(billed(), await recorded());
});

test("a second that may still see a late commit is not sealed", async (t) => {
  const { register, pass, drainOnce, sends } = await setUpBilling(t);
  await register(1);

  pass(2);
  t.deepEqual(await drainOnce(), { kind: "done" });
  t.is(sends(), 0);

  pass(1);
  await drainOnce();
  t.is(sends(), 1);
});

test("a fact of a second that is already sealed makes another event of that second", async (t) => {
  const { register, pass, drain, double, billed, recorded, sends } = await setUpBilling(t);
  const { control } = double;
  const second = control.now();
  await register(2);
  await drain();

  control.holdClock({ second });
  await register(3);
  pass(10);
  await drain();

  t.is(sends(), 2);
  t.deepEqual(billed(), { [second]: 5 });
  t.deepEqual(billed(), await recorded());
});

test("usage of more digits than Stripe takes in one event is billed in several", async (t) => {
  const { register, drain, billed, sends, double } = await setUpBilling(t);
  const second = double.control.now();
  await register(Number.MAX_SAFE_INTEGER);

  await drain();

  t.is(sends(), 10);
  t.deepEqual(billed(), { [second]: Number.MAX_SAFE_INTEGER });
});

test("large counts and their refunds in turn make no event of more digits than Stripe takes", async (t) => {
  const { register, refund, drain, billed, recorded, events } = await setUpBilling(t);
  const most = 999_999_999_999_999;
  await register(most);
  for (let round = 0; round < 3; round += 1) {
    await refund(await register(most));
  }

  await drain();

  t.deepEqual(
    (await events()).filter(({ state }) => state === "rejected"),
    [],
  );
  t.deepEqual(billed(), await recorded());
});

test("usage of test mode never reaches Stripe and is booked in the ledger", async (t) => {
  const { register, pass, seal, sends } = await setUpBilling(t);
  await register(9, "test");
  pass(5);

  const event = await seal("test");

  t.is(event?.processor, "ledger");
  t.is(event?.quantity, 9);
  t.is(sends(), 0);
});

const survives = test.macro({
  exec: async (t, faults: readonly Fault[]) => {
    const { register, drain, billed, recorded, events, double } = await setUpBilling(t, {
      // Only a hanging call waits for it.
      timeoutMs: 1500,
    });
    await register(7);
    for (const fault of faults) {
      double.control.addFault(fault);
    }

    await drain();

    t.deepEqual(billed(), await recorded());
    t.deepEqual(await events(), [{ state: "delivered", quantity: 7 }]);
    t.deepEqual(double.control.problems(), []);
  },
  title: (fault = "") => `usage is billed once after ${fault}`,
});

test("an answer that is lost after the usage was taken", survives, [
  { kind: "drop", applied: true, times: 2 },
]);
test("a call that is lost on its way", survives, [{ kind: "drop", times: 4 }]);
test("a call that is never answered, taken all the same", survives, [
  { kind: "hang", applied: true },
]);
test("a call that is never answered and not taken", survives, [{ kind: "hang" }]);
test("a 500 that may be repeated", survives, [{ kind: "server_error", times: 3 }]);
test("a 500 that its idempotency key repeats", survives, [{ kind: "server_error_saved" }]);
test("a saved 500 although the usage was taken", survives, [
  { kind: "server_error_saved", applied: true },
]);
test("rate limits and lock timeouts", survives, [
  { kind: "rate_limit", times: 2 },
  { kind: "lock_timeout" },
]);
test("a gateway's HTML page", survives, [{ kind: "bad_gateway", applied: true }]);
test("a 200 that cannot be read", survives, [{ kind: "broken_json", applied: true }]);

test("several senders of one stream never call at the same time and bill once", async (t) => {
  const { register, pass, drainOnce, drain, billed, recorded, double } = await setUpBilling(t);
  for (let second = 0; second < 10; second += 1) {
    await register(second + 1);
    pass(1);
  }
  pass(5);

  await Promise.all([drainOnce(), drainOnce(), drainOnce(), drainOnce()]);
  await drain();

  t.is(double.control.overlaps(), 0);
  t.deepEqual(billed(), await recorded());
});

test("refused credentials pause the sender and lose nothing", async (t) => {
  const { register, drain, drainOnce, pass, deps, stream, double, billed, recorded } =
    await setUpBilling(t);
  await register(6);
  pass(5);
  double.control.addFault({
    kind: "respond",
    status: 401,
    body: { error: { type: "invalid_request_error", message: "Invalid API Key provided." } },
  });

  t.like(await drainOnce(), { kind: "delayed", cause: "misconfigured" });
  t.is((await findUnfinishedMeterEvent(deps.db, stream))?.state, "sending");
  await drain();

  t.deepEqual(billed(), await recorded());
});

const DAY = 86_400;

test("after more than 20 hours in the dark Stripe's own sums decide: usage that it has is not sent again", async (t) => {
  const { register, drainOnce, drain, pass, double, sends, billed, recorded } =
    await setUpBilling(t);
  await register(5);
  pass(5);
  double.control.addFault({ kind: "drop", applied: true, times: 2 });
  await drainOnce();
  const before = sends();
  pass(2 * DAY);

  await drain();

  t.is(sends(), before);
  t.deepEqual(billed(), await recorded());
});

test("after more than 20 hours in the dark Stripe's own sums decide: usage that it lacks is sent", async (t) => {
  const { register, drainOnce, drain, pass, double, billed, recorded } = await setUpBilling(t);
  await register(5);
  pass(5);
  double.control.addFault({ kind: "drop", times: 2 });
  await drainOnce();
  pass(2 * DAY);

  await drain();

  t.deepEqual(billed(), await recorded());
});

test("a customer of whom Stripe does not tell any more blocks the doubtful event and nothing after it", async (t) => {
  const { register, pass, drainOnce, drain, double, events } = await setUpBilling(t);
  await register(7);
  pass(5);
  double.control.addFault({ kind: "drop", applied: true });
  await drainOnce();
  pass(21 * 3600);
  await register(2);
  double.control.addFault({
    kind: "respond",
    method: "GET",
    path: `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`,
    status: 404,
    body: { error: { type: "invalid_request_error", message: "No such customer: 'cus_gone'" } },
  });

  await drain();

  t.deepEqual(await events(), [
    { state: "blocked", quantity: 7 },
    { state: "delivered", quantity: 2 },
  ]);
});

const EVER = { start: 0, end: Number.MAX_SAFE_INTEGER };

test("usage of an organization with a Stripe customer waits while Stripe is not set up, and is billed when it is again", async (t) => {
  const { deps, stream, register, pass, drainOnce, drainWithoutKey, drain, double, ...scene } =
    await setUpBilling(t);
  const { events, sends, billed, recorded } = scene;
  await register(7);
  pass(5);
  double.control.addFault({ kind: "server_error" });
  await drainOnce();
  await register(2);
  pass(20);
  const before = sends();

  const paused = { kind: "delayed", cause: "misconfigured", afterMs: 5 * 60 * 1000 };
  t.like(await drainWithoutKey(), paused);
  t.deepEqual(await events(), [{ state: "sending", quantity: 7 }]);
  await drainOnce();
  await register(3);
  pass(5);
  t.like(await drainWithoutKey(), paused);
  t.deepEqual(
    (await events()).map(({ state }) => state),
    ["delivered", "delivered"],
  );
  t.is(await sumLedgerUsage(deps.db, stream, EVER), 0);
  t.is(sends(), before + 2);

  await drain();
  t.deepEqual(billed(), await recorded());
});

test("once an organization has left Stripe, what was sealed for Stripe is parked and the ledger bills the rest", async (t) => {
  const { deps, stream, register, pass, drainOnce, drainWithoutKey, double, events, sends } =
    await setUpBilling(t);
  await register(7);
  pass(5);
  double.control.addFault({ kind: "server_error" });
  await drainOnce();
  await register(2);
  pass(20);
  const before = sends();
  await updateAccount(deps.db, stream.accountId, {
    stripeCustomerId: null,
    stripeSubscriptionId: null,
  });

  t.deepEqual(await drainWithoutKey(), { kind: "done" });

  t.deepEqual(await events(), [
    { state: "blocked", quantity: 7 },
    { state: "delivered", quantity: 2 },
  ]);
  t.is(await sumLedgerUsage(deps.db, stream, EVER), 2);
  t.is(sends(), before);
});

test("usage older than Stripe takes is parked as expired and does not hold up the next", async (t) => {
  const { register, drain, pass, billed, events } = await setUpBilling(t);
  await register(5);
  pass(35 * DAY);
  await register(8);

  await drain();

  t.deepEqual(await events(), [
    { state: "expired", quantity: 5 },
    { state: "delivered", quantity: 8 },
  ]);
  t.deepEqual(Object.values(billed()), [8]);
});

test("the ledger takes usage of any age", async (t) => {
  const { deps, stream, register, drainWithoutKey, pass, events } = await setUpBilling(t);
  await updateAccount(deps.db, stream.accountId, { stripeCustomerId: null });
  await register(5);
  pass(40 * DAY);

  await drainWithoutKey();

  t.deepEqual(await events(), [{ state: "delivered", quantity: 5 }]);
  t.is(await sumLedgerUsage(deps.db, stream, EVER), 5);
});
