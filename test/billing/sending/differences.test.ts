import type { ExecutionContext } from "ava";
import { listFailedEvents } from "../listFailedEvents.ts";
import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
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
      customerId,
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
  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);
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
  const { register, pass, drainOnce, deps, stream, sends } = setup;
  await register(52);
  await sendBeforeLoss(t, setup, 24);
  pass(5);

  t.like(await drainOnce(), { kind: "delayed", cause: "asking" });
  const before = sends();
  const [event] = await listMeterEvents(deps.db, { state: null, ...stream, limit: 1 });
  t.like(event, {
    state: "pending",
    mayBeDelivered: true,
    askingSince: deps.clock.now(),
  });
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
