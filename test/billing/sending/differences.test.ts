import type { ExecutionContext } from "ava";
import { z } from "zod";
import type { Owner } from "../../../modules/records/owner.rules.ts";
import { listFailedMeterEventIds } from "../../../modules/billing/meterEventReports.sql.ts";
import { findUnfinishedMeterEvent } from "../../../modules/billing/meterEvents.sql.ts";
import { releaseFacts } from "../../../modules/billing/usageFacts.sql.ts";
import { sql } from "../../../db/sql.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { reopenUsage, retryUsage } from "../../../modules/billing/reconciliation/retryUsage.ts";
import { drainUsage } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { listAllWaitingRefunds } from "../../support/listAllWaitingRefunds.ts";
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
  const outcome = await deps.billing.findProcessor("stripe", "live")?.send(
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
        customer: { accountId: stream.accountId, customerId: null },
        kind: "tree",
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

  await drainMoved();

  t.deepEqual(billed(), { [second]: 5, [later]: 5 });
});

const idsOf = ({ deps, stream }: BillingSetup): Promise<readonly bigint[]> =>
  deps.db.anyFirst(sql.type(z.strictObject({ id: z.bigint() }))`
    SELECT id
    FROM meter_event
    WHERE account_id = ${stream.accountId}
    ORDER BY id
  `);

/** Delivers usage that Stripe then loses without a report. */
const loseUsage = async (setup: BillingSetup, units: number): Promise<bigint> => {
  setup.double.control.addFault({ kind: "reject_later" });
  await setup.register(units);
  await setup.drain();
  return (await idsOf(setup)).at(-1) ?? 0n;
};

const reopen = ({ deps }: BillingSetup, id: bigint, isDryRun = false) =>
  reopenUsage(deps, id, { reason: "lost at Stripe", isDryRun });

test("usage that Stripe lost is reopened and billed once", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, events, billed, recorded, pass } = setup;
  await register(3);
  await drain();
  const lost = await loseUsage(setup, 7);
  pass(LAG_SECONDS);

  t.deepEqual(await reopen(setup, lost, true), { quantity: 7 });
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 3 },
    { state: "delivered", quantity: 7 },
  ]);
  t.deepEqual(await reopen(setup, lost), { quantity: 7 });
  await drain();

  t.deepEqual(await events(), [
    { state: "delivered", quantity: 3 },
    { state: "superseded", quantity: 7 },
    { state: "delivered", quantity: 7 },
  ]);
  t.deepEqual(billed(), await recorded());
  const note = await setup.deps.db.oneFirst(sql.type(z.strictObject({ note: z.string() }))`
    SELECT last_error AS note
    FROM meter_event
    WHERE id = ${lost}
  `);
  t.is(note, "reopened: lost at Stripe");
});

test("a refund that Stripe lost is confirmed again when it is reopened", async (t) => {
  const setup = await setUpBilling(t);
  const { register, refund, drain, billed, recorded, pass, deps, double } = setup;
  const id = await register(5);
  await drain();
  await refund(id, 2);
  double.control.addFault({ kind: "reject_later" });
  await drain();
  await deps.db.query(sql.typeAlias("void")`
    UPDATE refund SET dispatched_at = now() WHERE registration_id = ${id}
  `);
  const lost = (await idsOf(setup)).at(-1) ?? 0n;
  pass(LAG_SECONDS);

  await reopen(setup, lost);

  const waiting = await listAllWaitingRefunds(deps.db);
  t.true(waiting.some(({ registrationId }) => registrationId === id));
  await drain();
  t.deepEqual(billed(), await recorded());
});

test("an event is not reopened while the sums may lag, if Stripe has it, or if they fit neither", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, billed, recorded, events } = setup;
  await register(3);
  await drain();
  const [delivered = 0n] = await idsOf(setup);
  await t.throwsAsync(reopen(setup, delivered), { message: /the processor has its usage/u });

  const other = await setUpBilling(t);
  const second = other.double.control.now();
  const lost = await loseUsage(other, 7);
  await t.throwsAsync(reopen(other, lost), { message: /may lag/u });
  other.pass(LAG_SECONDS);
  await other.reportElsewhere(2, second);
  await t.throwsAsync(reopen(other, lost), {
    message: /the processor has 2 units in that minute that no other/u,
  });

  t.deepEqual(await events(), [{ state: "delivered", quantity: 3 }]);
  t.deepEqual(billed(), await recorded());
});

test("an event whose facts were released to a later one is not reopened", async (t) => {
  const setup = await setUpBilling(t);
  const lost = await loseUsage(setup, 7);
  setup.pass(LAG_SECONDS);
  await setup.deps.db.transaction((transaction) => releaseFacts(transaction, lost, 3));
  await t.throwsAsync(reopen(setup, lost), { message: /sealed again in a later event/u });
});

test("only delivered events are reopened, and only once at a time", async (t) => {
  const setup = await setUpBilling(t);
  const lost = await loseUsage(setup, 7);
  setup.pass(LAG_SECONDS);
  const results = await Promise.allSettled([reopen(setup, lost), reopen(setup, lost)]);
  t.is(results.filter(({ status }) => status === "fulfilled").length, 1);
  await t.throwsAsync(reopen(setup, lost), { message: /is superseded: only delivered/u });
  await t.throwsAsync(reopen(setup, 999_999n), { message: /meter event 999999 not found/u });
  await setup.drain();
  t.deepEqual(setup.billed(), await setup.recorded());
});
