import { REFUSED } from "../../stripeDouble/faults.ts";
import { z } from "zod";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listBillingPeriods } from "../../../modules/billing/billingPeriods.sql.ts";
import { sql } from "../../../db/sql.ts";
import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";
import { moveToStripe } from "../../../modules/billing/moveToStripe.ts";
import { refreshSubscription } from "../../../modules/billing/processorEvents/refreshSubscriptions.ts";
import { testWithDatabase } from "../../support/database.ts";
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

test("moved usage from before the subscription is late once it is sent", async (t) => {
  const { deps, double, forgetProcessor, register, drainWithoutKey, drain, pass, ...scene } =
    await setUpBilling(t);
  const { accountId } = scene.stream;
  await forgetProcessor();
  await updateAccount(deps.db, accountId, { stripeCustomerId: null, stripeSubscriptionId: null });
  await register(3);
  pass(5);
  await drainWithoutKey();
  pass(MINUTE);
  const { customerId, subscriptionId } = double.control.addSubscriber({});
  await updateAccount(deps.db, accountId, {
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  await register(5);

  const { usage } = await moveToStripe(deps, { isDryRun: false });
  await drain();

  t.like(usage, [{ events: 1, quantity: 3 }]);
  t.like(await listMeterEvents(deps.db, { state: "late", accountId, limit: 10 }), [
    { quantity: 3, customerId },
  ]);
});
