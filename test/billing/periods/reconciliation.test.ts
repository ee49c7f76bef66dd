import { sql } from "../../../db/sql.ts";
import { minuteOf } from "../../../modules/billing/usage.rules.ts";
import { createBilling, requireStripe } from "../../../modules/billing/createBilling.ts";
import type { BillingProcessor } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { updateOrganization } from "../../../modules/accounts/manageOrganizations.ts";
import {
  defaultSpan,
  listStreamsNeedingAttention,
  reconcileUsage,
} from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import type { StreamReport } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { drainUsage } from "../drainUsage.ts";
import { countCalls } from "../../support/countCalls.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";
import type { BillingSetup } from "../billingSetup.ts";
import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";

const test = testWithDatabase();

const { signal } = new AbortController();

const LAGGING = { summaryDelaySeconds: 120 };

const reconcile = ({ deps, stream }: BillingSetup) =>
  reconcileUsage(deps, { accountId: stream.accountId }, signal);

/** Compares the customer's trees. */
const compare = async (setup: BillingSetup): Promise<readonly StreamReport[]> =>
  (await reconcile(setup)).streams.filter(({ kind }) => kind === "tree");

const openDifferences = ({ deps, stream }: BillingSetup) =>
  listMeterEvents(deps.db, { state: "difference", accountId: stream.accountId, limit: 100 });

/** Registers and refunds in twenty minutes. Stripe's sums do not have the refunds yet. Returns the registrations. */
const lagTwentyMinutes = async (setup: BillingSetup): Promise<readonly string[]> => {
  const { register, refund, drain, pass, reportElsewhere } = setup;
  const ids: string[] = [];
  for (let minute = 0; minute < 20; minute += 1) {
    ids.push(await register(2));
    pass(60);
  }
  reportElsewhere(1000);
  await drain();
  pass(3600);
  for (const id of ids) {
    await refund(id, 1);
  }
  await drain();
  return ids;
};

test("a reconciliation fails if the processor is not configured, and succeeds if it does not know a customer", async (t) => {
  const { register, drain, pass, deps, stream, double, customerId } = await setUpBilling(t);
  await register(7);
  await drain();
  pass(3600);
  const { accountId } = stream;
  const run = (billing: typeof deps.billing) =>
    reconcileUsage({ ...deps, billing }, { accountId }, signal);

  const unconfigured = await run(createBilling({ db: deps.db, stripe: null }));
  double.control.deleteCustomer({ customerId });
  const refused = await run(deps.billing);

  t.is(unconfigured.drifting.length, 2);
  t.true(unconfigured.drifting.every(({ error }) => error !== null));
  t.regex(unconfigured.failure ?? "", /could not be read.*STRIPE_SECRET_KEY is not set/u);
  t.true(refused.streams.every(({ error }) => error === `No such customer: ${customerId}`));
  t.deepEqual(refused.drifting, []);
  t.is(refused.failure, null);
});

/** Returns the use cases' context with another way to make some of Stripe's calls. */
const replaceCalls = (
  { deps }: BillingSetup,
  replace: (stripe: BillingProcessor) => Partial<BillingProcessor>,
): BillingSetup["deps"] => {
  const stripe = requireStripe(deps.billing);
  return { ...deps, billing: { ...deps.billing, stripe: { ...stripe, ...replace(stripe) } } };
};

test("usage and refunds that the processor has before the sender records it are no differences", async (t) => {
  const setup = await setUpBilling(t);
  const { stream, register, refund, pass, double } = setup;
  const span = minuteOf(double.control.now());
  const found: StreamReport[] = [];
  const deps = replaceCalls(setup, (stripe) => ({
    send: async (...given) => {
      const outcome = await stripe.send(...given);
      found.push(...(await reconcileUsage(setup.deps, { ...stream, span }, signal)).streams);
      return outcome;
    },
  }));
  const drain = () => drainUsage(deps, stream);
  const id = await register(7);
  pass(5);
  await drain();
  await refund(id, 2);
  pass(5);
  await drain();

  const ofTrees = found.filter(({ kind }) => kind === "tree");
  t.like(ofTrees, [
    { delivered: 0, processorQuantity: 7 },
    { delivered: 7, processorQuantity: 5 },
  ]);
  t.deepEqual(listStreamsNeedingAttention(found), []);
});

for (const isChanging of [true, false]) {
  test(`twenty lagging minutes${isChanging ? ", of which one changes meanwhile," : ""} need attention, because further minutes may differ`, async (t) => {
    const setup = await setUpBilling(t, LAGGING);
    const [first = ""] = await lagTwentyMinutes(setup);
    let minutes = 0;
    const deps = replaceCalls(setup, (stripe) => ({
      sumUsage: async (customerId, kind, span, given) => {
        minutes += span.end - span.start === 60 ? 1 : 0;
        if (isChanging && minutes === 20) {
          await setup.refund(first, 1);
          await setup.drain();
        }
        return stripe.sumUsage(customerId, kind, span, given);
      },
    }));

    const reports = await compare({ ...setup, deps });

    t.like(reports, [{ differences: [], skipped: 20 }]);
    t.is(listStreamsNeedingAttention(reports).length, 1);
  });
}

test("a reconciliation that yields reads our sums in parts, and reports the same", async (t) => {
  const { deps, stream, customerId } = await setUpBilling(t);
  const span = defaultSpan(deps.clock.now());
  // One event in each quarter of an hour, from the first to the last second of the span. Those of an hour add up to zero.
  await deps.db.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, sealed_at,
        settled_at
      )
    SELECT
      ${stream.accountId}, 'live', 'tree', least(second, ${span.end - 1}), 1,
      CASE WHEN second / 900 % 2 = 0 THEN 3 ELSE -3 END, 'quarter:' || second, 'stripe', ${customerId}, 'delivered',
      to_timestamp(second), to_timestamp(second)
    FROM generate_series(${span.start}::bigint, ${span.end}::bigint, 900) AS second
  `);
  const bulk = countCalls(deps.db);

  const usual = await reconcileUsage(deps, { ...stream, span }, signal);
  const yielding = await reconcileUsage({ ...deps, bulkDb: bulk.db }, { ...stream, span }, signal);

  t.deepEqual(yielding, usual);
  t.true(bulk.count() > 35, String(bulk.count()));
});

test("units of a customer without any usage here are found, also of one that the account has had", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, pass, double, reportElsewhere, stream, customerId } = setup;
  reportElsewhere(4);
  const { customerId: stripeCustomerId } = double.control.addSubscriber({});
  const changes = { stripeCustomerId, stripeSubscriptionId: null };
  await updateOrganization(deps, stream.accountId, changes);
  pass(3600);

  await reconcile(setup);

  t.like(await openDifferences(setup), [{ customerId, kind: "tree", quantity: -4 }]);
});

test("the difference of many minutes is reported as a whole, with its first twenty minutes", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, pass, double, reportElsewhere } = setup;
  const second = double.control.now();
  for (let minute = 0; minute < 25; minute += 1) {
    await register(10);
    reportElsewhere(1);
    pass(60);
  }
  await drain();
  pass(3600);

  const { drifting } = await reconcile(setup);

  t.is(drifting.length, 1);
  t.like(drifting[0], { delivered: 250, processorQuantity: 275, error: null });
  const found = await openDifferences(setup);
  const seconds = found.map((difference) => difference.second).toSorted((a, b) => a - b);
  const first = Array.from({ length: 20 }, (_, minute) => second + minute * 60);
  t.deepEqual(seconds, first);
});
