import type { ExecutionContext } from "ava";
import type { Owner } from "../../../modules/records/owner.rules.ts";
import { listFailedMeterEventIds } from "../../../modules/billing/meterEventReports.sql.ts";
import { findMeterEvent } from "../../../modules/billing/meterEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { retryUsage } from "../../../modules/billing/reconciliation/retryUsage.ts";
import { drainUsage } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { setUpBilling } from "../billingSetup.ts";
import type { BillingSetup } from "../billingSetup.ts";

const test = testWithDatabase();

/** Longer than Stripe's sums may lag. */
const LAG_SECONDS = 16 * 60;

/**
 * Sends usage under the identifier of the next meter event of the current second, as a database did that lost its latest
 * transactions.
 */
const sendBeforeLoss = async (
  t: ExecutionContext,
  { deps, stream, customerId, double }: BillingSetup,
  quantity: number,
  { sequence = 1, keyGeneration = 0 } = {},
): Promise<void> => {
  const { accountId } = stream;
  const second = double.control.now();
  const outcome = await deps.billing.stripe?.send(
    {
      identifier: `u1:${accountId}:live:tree:${second}:${sequence}`,
      customer: { accountId, customerId },
      kind: "tree",
      quantity,
      second,
      keyGeneration,
    },
    new AbortController().signal,
  );
  t.is(outcome?.kind, "delivered");
};

/** Returns the units by which Stripe's sums differ from what was delivered. */
const differenceOf = async ({ deps, stream }: BillingSetup): Promise<number> => {
  const streams = await reconcileUsage(deps, stream, new AbortController().signal);
  return streams
    .flatMap(({ differences }) => differences)
    .reduce((sum, { units }) => sum + units, 0);
};

const isNotDoubled = test.macro({
  exec: async (
    t: ExecutionContext<DatabaseContext>,
    { ours, theirs }: { readonly ours: number; readonly theirs: number },
  ) => {
    const setup = await setUpBilling(t, { summaryDelaySeconds: 300 });
    const { register, drain, pass, billed, double } = setup;
    const second = double.control.now();
    await register(ours);
    await sendBeforeLoss(t, setup, theirs);

    await drain();

    t.deepEqual(billed(), { [second]: Math.max(ours, theirs) });
    pass(LAG_SECONDS);
    t.is(await differenceOf(setup), Math.max(theirs - ours, 0));
    t.deepEqual(double.control.problems(), []);
  },
  title: (_, { ours, theirs }) =>
    `of ${ours} units in a second of which Stripe has ${theirs} under the same identifier, only the difference is sent`,
});

test(isNotDoubled, { ours: 52, theirs: 76 });
test(isNotDoubled, { ours: 19, theirs: 28 });
test(isNotDoubled, { ours: 52, theirs: 24 });

test("usage whose identifier conflicts is never refused or sent again before Stripe's sums are complete", async (t) => {
  const setup = await setUpBilling(t);
  const { register, pass, drainOnce, deps, seal, stream, sends } = setup;
  await register(52);
  await sendBeforeLoss(t, setup, 24);
  pass(5);
  const { id = 0n } = (await seal()) ?? {};

  t.like(await drainOnce(), { kind: "delayed", cause: "asking" });
  const before = sends();
  t.like(await findMeterEvent(deps.db, id), {
    state: "pending",
    mayBeDelivered: true,
    askingSince: deps.clock.now(),
  });
  pass(10 * 60);
  t.like(await drainOnce(), { kind: "delayed", cause: "early", afterMs: 5 * 60 * 1000 });

  t.is(sends(), before);
  t.deepEqual(await listFailedMeterEventIds(deps.db, stream), []);
});

test("an event that waits to be asked about does not delay the stream's other usage", async (t) => {
  const setup = await setUpBilling(t);
  const { register, pass, drainOnce, drain, events, billed, recorded, double } = setup;
  const second = double.control.now();
  await register(52);
  await sendBeforeLoss(t, setup, 24);
  pass(5);
  await register(3);
  pass(5);

  t.like(await drainOnce(), { kind: "delayed", cause: "asking" });

  t.deepEqual(await events(), [
    { state: "pending", quantity: 52 },
    { state: "delivered", quantity: 3 },
  ]);
  t.deepEqual(billed(), { [second]: 24, [second + 5]: 3 });
  pass(LAG_SECONDS);
  await drain();
  t.deepEqual(billed(), await recorded());
});

test("a duplicate that no earlier attempt explains may have another quantity, so it is asked about", async (t) => {
  const setup = await setUpBilling(t);
  const { register, pass, drainOnce, drain, billed, events, double } = setup;
  const second = double.control.now();
  await register(52);
  // Another idempotency key, so that Stripe compares the identifiers only.
  await sendBeforeLoss(t, setup, 24, { keyGeneration: 1 });
  pass(5);

  t.like(await drainOnce(), { kind: "delayed", cause: "asking" });
  await drain();

  t.deepEqual(billed(), { [second]: 52 });
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 52 },
    { state: "delivered", quantity: -28 },
    { state: "delivered", quantity: 28 },
  ]);
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

test("the difference is sent once even if the next identifiers conflict too", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, billed, recorded, events } = setup;
  await register(52);
  await sendBeforeLoss(t, setup, 20);
  // The second one is that of the difference.
  await sendBeforeLoss(t, setup, 4, { sequence: 3 });

  await drain();

  t.deepEqual(billed(), await recorded());
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 52 },
    { state: "delivered", quantity: -28 },
    { state: "delivered", quantity: 28 },
  ]);
});

test("units that were refunded before the difference is sent are taken back", async (t) => {
  const setup = await setUpBilling(t);
  const { register, refund, pass, drain, drainOnce, billed, recorded, events } = setup;
  const id = await register(10);
  await sendBeforeLoss(t, setup, 4);
  pass(5);
  await drainOnce();
  await refund(id);
  await drainOnce();
  t.deepEqual(await events(), [
    { state: "pending", quantity: 10 },
    { state: "waits_for_usage", quantity: -10 },
  ]);

  await drain();

  t.deepEqual(billed(), {});
  t.deepEqual(billed(), await recorded());
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 10 },
    { state: "delivered", quantity: -10 },
    { state: "delivered", quantity: -6 },
    { state: "delivered", quantity: 6 },
  ]);
});

test("a refund whose identifier conflicts is sent only as far as Stripe lacks it", async (t) => {
  const setup = await setUpBilling(t);
  const { register, refund, drain, billed, recorded, double, deps } = setup;
  const second = double.control.now();
  const id = await register(10);
  await drain();
  await refund(id, 7);
  double.control.holdClock({ second });
  await sendBeforeLoss(t, setup, -3, { sequence: 2 });

  await drain();

  t.deepEqual(billed(), await recorded());
  t.deepEqual(await listFailedMeterEventIds(deps.db, setup.stream), []);
});

test("retrying a failed event sends only what the processor lacks of it", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, stream, register, drain, drainOnce, pass, double, billed, recorded } = setup;
  const { events, reportElsewhere } = setup;
  const second = double.control.now();
  await register(52);
  pass(5);
  double.control.addFault({ kind: "drop" });
  double.control.addFault({
    kind: "respond",
    status: 400,
    body: { error: { type: "invalid_request_error", message: "Refused for the test." } },
  });
  await drainOnce();
  await drain();
  await reportElsewhere(24, second);
  const [failed = 0n] = await listFailedMeterEventIds(deps.db, stream);
  pass(LAG_SECONDS);

  t.is((await retryUsage(deps, failed)).retry, "ask");
  await drain();

  t.deepEqual(billed(), await recorded());
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 52 },
    { state: "delivered", quantity: -28 },
    { state: "delivered", quantity: 28 },
  ]);
});

/** Gives the customer of the set-up's account to another account, and returns that account's stream. */
const moveCustomer = async ({ deps, stream, customerId }: BillingSetup): Promise<Owner> => {
  await deps.db.query(sql.typeAlias("void")`
    UPDATE account SET stripe_customer_id = NULL, stripe_subscription_id = NULL WHERE id = ${stream.accountId}
  `);
  const { id } = await createTestOrganization(deps.db, {
    clock: deps.clock,
    stripeCustomerId: customerId,
  });
  return { ...stream, accountId: id };
};

test("usage of a customer's earlier account is not mistaken for that of the later one", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, double, register, drain, pass, billed } = setup;
  const second = double.control.now();
  await register(5);
  await drain();
  const moved = await moveCustomer(setup);
  const writer = createRegistrationWriter(deps);
  await writer.register(registrationOf(moved.accountId, { count: 5 }));
  const later = double.control.now();
  pass(5);
  const drainMoved = () =>
    drainUsage(deps, moved, { signal: new AbortController().signal, onResult: () => undefined });
  double.control.addFault({ kind: "drop", times: 2 });
  t.like(await drainMoved(), { kind: "delayed", cause: "retry" });
  double.control.clearFaults();
  pass(21 * 3600);

  t.like(await drainMoved(), { kind: "delayed", cause: "asking" });
  pass(LAG_SECONDS);
  await drainMoved();
  t.deepEqual(await drainMoved(), { kind: "done" });

  t.deepEqual(billed(), { [second]: 5, [later]: 5 });
});

test("events of several accounts of one customer and minute are decided together", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, drain, drainOnce, pass, double, billed, sends } = setup;
  const second = double.control.now();
  await register(5);
  pass(5);
  double.control.addFault({ kind: "drop", applied: true });
  await drainOnce();
  const moved = await moveCustomer(setup);
  await createRegistrationWriter(deps).register(registrationOf(moved.accountId, { count: 5 }));
  pass(5);
  const drainMoved = () =>
    drainUsage(deps, moved, { signal: new AbortController().signal, onResult: () => undefined });
  double.control.addFault({ kind: "drop" });
  await drainMoved();
  pass(21 * 3600);
  t.like(await drainOnce(), { kind: "delayed", cause: "asking" });
  t.like(await drainMoved(), { kind: "delayed", cause: "asking" });
  const before = sends();
  pass(LAG_SECONDS);

  t.deepEqual(await drainOnce(), { kind: "done" });
  t.is(sends(), before);
  await drainMoved();
  await drain();

  t.is(sends(), before + 1);
  t.deepEqual(billed(), { [second]: 5, [second + 5]: 5 });
});
