import type { ExecutionContext } from "ava";
import { listFailedMeterEventIds } from "../../../db/billing/meterEventReports.ts";
import { findUnfinishedMeterEvent } from "../../../db/billing/meterEvents.ts";
import { sql } from "../../../db/sql.ts";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { drainUsage } from "../../../services/billing/sending/drainUsage.ts";
import { createRegistrationWriter } from "../../../services/registrations/createRegistrationWriter.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { retryUsage } from "../../../services/billing/retryUsage.ts";
import { reconcileUsage } from "../../../services/billing/reconciliation/reconcileUsage.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { BillingSetup } from "../billingSetup.ts";
import { setUpBilling } from "../billingSetup.ts";

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
  const outcome = await deps.billing.findProcessor("stripe", "live")?.send(
    {
      identifier: `u1:${accountId}:live:tree:${second}:${sequence}`,
      customer: { accountId, customerId, subscriptionId: null },
      meter: "tree",
      quantity,
      second,
      keyGeneration,
    },
    new AbortController().signal,
  );
  t.is(outcome?.kind, "delivered");
};

const driftOf = async ({ deps, stream }: BillingSetup): Promise<number | null | undefined> => {
  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);
  return streams[0]?.drift;
};

const isNotDoubled = test.macro({
  exec: async (
    t: ExecutionContext<DatabaseContext>,
    { ours, theirs }: { readonly ours: number; readonly theirs: number },
  ) => {
    const setup = await setUpBilling(t, { summaryDelaySeconds: 300 });
    const { register, drain, pass, retryFailed, billed, double } = setup;
    const second = double.control.now();
    await register(ours);
    await sendBeforeLoss(t, setup, theirs);

    await drain();
    pass(LAG_SECONDS);
    await retryFailed();
    await drain();

    t.deepEqual(billed(), { [second]: Math.max(ours, theirs) });
    pass(LAG_SECONDS);
    t.is(await driftOf(setup), Math.max(theirs - ours, 0));
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
  const { register, pass, drainOnce, deps, stream, sends } = setup;
  await register(52);
  await sendBeforeLoss(t, setup, 24);
  pass(5);

  t.like(await drainOnce(), { kind: "delayed", cause: "in_doubt" });
  const before = sends();
  t.like(await findUnfinishedMeterEvent(deps.db, stream), {
    state: "sending",
    outcomeUnknown: true,
    inDoubtSince: deps.clock.now(),
  });
  pass(10 * 60);
  t.like(await drainOnce(), { kind: "delayed", cause: "early", afterMs: 5 * 60 * 1000 });

  t.is(sends(), before);
  t.deepEqual(await listFailedMeterEventIds(deps.db, stream), []);
});

test("a duplicate that no earlier attempt explains may have another quantity", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, billed, events, double } = setup;
  const second = double.control.now();
  await register(52);
  // Another idempotency key, so that Stripe compares the identifiers only.
  await sendBeforeLoss(t, setup, 24, { keyGeneration: 1 });

  await drain();

  t.deepEqual(billed(), { [second]: 52 });
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 24 },
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
  t.deepEqual(await events(), [
    { state: "superseded", quantity: 52 },
    { state: "delivered", quantity: 52 },
  ]);
});

test("the difference is sent once even if the next identifiers conflict too", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, billed, recorded, events } = setup;
  await register(52);
  await sendBeforeLoss(t, setup, 20);
  await sendBeforeLoss(t, setup, 4, { sequence: 2 });

  await drain();

  t.deepEqual(billed(), await recorded());
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 24 },
    { state: "superseded", quantity: 28 },
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

  await drain();

  t.deepEqual(billed(), {});
  t.deepEqual(billed(), await recorded());
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 4 },
    { state: "delivered", quantity: -4 },
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

  t.is(await retryUsage(deps, failed), "waiting");
  await drain();

  t.deepEqual(billed(), await recorded());
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 24 },
    { state: "delivered", quantity: 28 },
  ]);
});

test("the ledger reports an identifier that it has with another quantity as a conflict", async (t) => {
  const { deps, stream } = await setUpBilling(t);
  const send = (quantity: number) =>
    deps.billing.findProcessor("ledger", "live")?.send(
      {
        identifier: `u1:${stream.accountId}:live:tree:100:1`,
        customer: { accountId: stream.accountId, customerId: null, subscriptionId: null },
        meter: "tree",
        quantity,
        second: 100,
        keyGeneration: 0,
      },
      new AbortController().signal,
    );

  t.deepEqual(await send(3), { kind: "delivered" });
  t.deepEqual(await send(3), { kind: "delivered" });
  t.like(await send(4), { kind: "conflict" });
});

/** Gives the customer of the set-up's account to another account, and returns that account's stream. */
const moveCustomer = async ({ deps, stream, customerId }: BillingSetup): Promise<UsageStream> => {
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

  await drainMoved();

  t.deepEqual(billed(), { [second]: 5, [later]: 5 });
});
