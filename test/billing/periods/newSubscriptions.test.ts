import { REFUSED } from "../../stripeDouble/faults.ts";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listBillingPeriods } from "../../../modules/billing/billingPeriods.sql.ts";
import { sql } from "../../../db/sql.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { updateOrganization } from "../../../modules/accounts/updateOrganization.ts";
import { moveToStripe } from "../../../modules/billing/moveToStripe.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { refreshSubscription } from "../../../modules/billing/processorEvents/refreshSubscriptions.ts";
import { drainUsage } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { setUpBilling } from "../billingSetup.ts";

// Serial, because a deployment has one processor.
const test = testWithDatabase().serial;

const NOON = Date.UTC(2026, 4, 15, 12) / 1000;
const MINUTE = 60;
const TWO_MONTHS_LATER = Date.UTC(2026, 6, 15, 12) / 1000;

const deliveredRow = z.strictObject({ quantity: z.bigint(), isLate: z.boolean() });

for (const minutes of [10, 120]) {
  test(`usage from ${minutes} minutes before a subscription is late in its first hour, and later usage is not`, async (t) => {
    const { deps, double, stream, ...scene } = await setUpBilling(t);
    const { accountId } = stream;
    double.control.addFault(REFUSED);
    await scene.register(5);
    await scene.drain();
    scene.pass(minutes * MINUTE);
    const { customerId, subscriptionId } = double.control.addSubscriber({});
    await updateAccount(deps.db, accountId, {
      stripeCustomerId: customerId,
      stripeSubscriptionId: subscriptionId,
    });
    await refreshSubscription(deps, accountId, AbortSignal.timeout(60_000));
    await scene.register(1);
    scene.pass(5 * MINUTE);
    await scene.retryFailed();

    await scene.drain();

    t.deepEqual(
      await deps.db.any(sql.type(deliveredRow)`
          SELECT quantity, is_late AS "isLate"
          FROM meter_event
          WHERE account_id = ${accountId} AND state = 'delivered'
          ORDER BY quantity
        `),
      [
        { quantity: 1n, isLate: false },
        { quantity: 5n, isLate: true },
      ],
    );
  });
}

test("usage of the month before is not late in an hour after a month whose period is unknown", async (t) => {
  const { deps, double, stream, ...scene } = await setUpBilling(t);
  const read = () => refreshSubscription(deps, stream.accountId, AbortSignal.timeout(60_000));
  await read();
  double.control.holdClock({ second: TWO_MONTHS_LATER - MINUTE });
  await scene.register(5);
  double.control.holdClock({ second: TWO_MONTHS_LATER + 10 * MINUTE });
  await read();
  const periods = await listBillingPeriods(deps.db, stream.accountId);
  t.deepEqual(
    periods.filter(({ kind }) => kind === "tree").map(({ start }) => start.getTime() / 1000),
    [TWO_MONTHS_LATER, NOON],
  );

  await scene.drain();

  t.deepEqual(
    await deps.db.any(sql.type(deliveredRow)`
      SELECT quantity, is_late AS "isLate"
      FROM meter_event
      WHERE account_id = ${stream.accountId} AND state = 'delivered'
    `),
    [{ quantity: 5n, isLate: false }],
  );
});

/** A deployment on the ledger, whose organization gets a subscription at Stripe an hour after its usage. */
const setUpLedger = async (t: ExecutionContext<DatabaseContext>) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`
    UPDATE deployment
    SET processor = NULL, stripe_account_id = NULL, stripe_livemode = NULL
  `);
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { control } = double;
  control.holdClock({ second: NOON });
  const clock = { now: () => new Date(control.now() * 1000) };
  const deps = { db, clock, billing: createBilling({ db, stripe: null }), actor: SERVICE };
  await deps.billing.prepare();
  const stripe = connectStripe({ secretKey: double.secretKey, apiBase: double.url });
  const withStripe = { ...deps, billing: createBilling({ db, stripe }) };
  const { id } = await createTestOrganization(db, { clock });
  return {
    use: async (count: number): Promise<void> => {
      await createRegistrationWriter(deps).register(registrationOf(id, { count }));
      control.advanceClock({ seconds: 5 });
      await drainUsage(deps, { accountId: id, mode: "live", kind: "tree" });
    },
    pass: (seconds: number) => control.advanceClock({ seconds }),
    subscribe: async (): Promise<void> => {
      const { customerId, subscriptionId } = control.addSubscriber({});
      await updateOrganization(withStripe, id, {
        stripeCustomerId: customerId,
        stripeSubscriptionId: subscriptionId,
      });
    },
    /** Returns how many of the moved events may be on no invoice. */
    move: async (): Promise<readonly number[]> =>
      (await moveToStripe(withStripe, { isDryRun: false, operator: "ada" })).usage.map(
        ({ ended }) => ended,
      ),
  };
};

test("the move to Stripe counts usage from before the subscription", async (t) => {
  const { use, subscribe, move, pass } = await setUpLedger(t);
  await use(3);
  await use(4);
  pass(MINUTE);
  await subscribe();
  await use(5);

  t.deepEqual(await move(), [2]);
});

test("usage of the subscription waits for Stripe, so the move to Stripe counts none", async (t) => {
  const { use, subscribe, move } = await setUpLedger(t);
  await subscribe();
  await use(5);

  t.deepEqual(await move(), []);
});
