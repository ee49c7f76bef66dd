import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { refusal } from "../../stripeDouble/faults.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { testWithDatabase } from "../../support/database.ts";
import { sumLedgerUnits } from "../../support/accountSums.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

test("the registrations of each second make one meter event", async (t) => {
  const { register, pass, drain, billed, recorded, sends } = await setUpBilling(t);
  await Promise.all([register(3), register(4), register(5)]);
  pass(1);
  await register(10);

  await drain();

  t.is(sends(), 2);
  t.deepEqual(Object.values(billed()), [12, 10]);
  t.deepEqual(billed(), await recorded());
});

test("a second is not sealed while a late commit may add to it", async (t) => {
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

test("test-mode usage is delivered to the ledger by its sealing, and never reaches Stripe", async (t) => {
  const { register, pass, seal, sends, deps, stream, events } = await setUpBilling(t);
  await register(9, "test");
  pass(5);

  t.is(await seal("test"), null);

  t.is(await sumLedgerUnits(deps.db, { ...stream, mode: "test" }), 9);
  t.deepEqual(await events(), [{ state: "delivered", quantity: 9 }]);
  t.is(sends(), 0);
});

const SURVIVED: Readonly<Record<string, Fault>> = {
  "a call without a response whose usage was accepted": { kind: "hang", applied: true },
  "a call without a response whose usage was not accepted": { kind: "hang" },
  "a call with refused credentials": refusal(401, "Invalid API Key provided."),
};

for (const [title, fault] of Object.entries(SURVIVED)) {
  test(`usage is billed once after ${title}`, async (t) => {
    // Short, because a hanging call lasts that long.
    const setup = await setUpBilling(t, { timeoutMs: 1500 });
    const { register, drain, billed, recorded, events, double } = setup;
    await register(7);
    double.control.addFault(fault);

    await drain();

    t.deepEqual(billed(), await recorded());
    t.deepEqual(await events(), [{ state: "delivered", quantity: 7 }]);
    t.deepEqual(double.control.problems(), []);
  });
}

test("usage of an organization with a Stripe customer waits while Stripe is not configured", async (t) => {
  const { register, pass, drainOnce, drainWithoutKey, drain, double, ...scene } =
    await setUpBilling(t);
  const { events, ledgerUnits, sends, billed, recorded } = scene;
  await register(7);
  pass(5);
  double.control.addFault({ kind: "server_error" });
  await drainOnce();
  await register(2);
  pass(20);
  const before = sends();

  const paused = { kind: "delayed", cause: "misconfigured", afterMs: 5 * 60 * 1000 };
  t.like(await drainWithoutKey(), paused);
  t.deepEqual(await events(), [{ state: "pending", quantity: 7 }]);
  await drainOnce();
  await register(3);
  pass(5);
  t.like(await drainWithoutKey(), paused);
  const states = (await events()).map(({ state }) => state);
  t.deepEqual(states, ["delivered", "delivered"]);
  t.is(await ledgerUnits(), 0);
  t.is(sends(), before + 2);

  await drain();
  t.deepEqual(billed(), await recorded());
});

test.serial("the ledger accepts usage of any age", async (t) => {
  const { forgetProcessor, deps, stream, register, drainWithoutKey, pass, ...scene } =
    await setUpBilling(t);
  const { events, ledgerUnits } = scene;
  await forgetProcessor();
  await updateAccount(deps.db, stream.accountId, { stripeCustomerId: null });
  await register(5);
  pass(40 * 86_400);

  await drainWithoutKey();

  t.deepEqual(await events(), [{ state: "delivered", quantity: 5 }]);
  t.is(await ledgerUnits(), 5);
});
