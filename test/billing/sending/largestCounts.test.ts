import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { readStatement } from "../../../modules/billing/readStatement.ts";
import { MAXIMUM_QUANTITY } from "../../../modules/billing/usage.rules.ts";
import type { Span } from "../../../modules/billing/usage.rules.ts";
import { drainUsage } from "../drainUsage.ts";
import { registrationsIn } from "../../api/contract.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { testWithDatabase } from "../../support/database.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

const DAY = 86_400;
const MOST = Number.MAX_SAFE_INTEGER;
const REFUNDED = 5_000_000_000_000_001;
const never = new AbortController().signal;

test("the largest count is billed and refunded exactly, in events of at most 15 digits", async (t) => {
  const { register, refund, drain, billed, recorded, events, deps, double, stream, pass } =
    await setUpBilling(t);
  const second = double.control.now();
  const span = { start: second - (second % 60), end: second - (second % 60) + 60 };
  const id = await register(MOST);
  await drain();

  t.deepEqual(billed(), { [second]: MOST });
  const sent = await events();
  t.is(sent.length, 10);
  t.true(sent.every(({ quantity }) => quantity <= MAXIMUM_QUANTITY));

  t.is((await refund(id, REFUNDED)).total, MOST - REFUNDED);
  await drain();
  t.deepEqual(billed(), { [second]: MOST - REFUNDED });
  t.deepEqual(await recorded(), { [second]: MOST - REFUNDED });
  t.true((await events()).every(({ quantity }) => Math.abs(quantity) <= MAXIMUM_QUANTITY));

  pass(3600);
  const compare = async (compared: Span) =>
    (
      await reconcileUsage(deps, { accountId: stream.accountId, span: compared }, never)
    ).streams.find(({ kind }) => kind === "tree");
  t.like(await compare(span), {
    delivered: MOST - REFUNDED,
    processorQuantity: MOST - REFUNDED,
    differences: [],
  });
  const { statements } = await readStatement(deps, stream, null);
  const [trees] = statements;
  t.like(trees?.days[0], {
    registered: MOST,
    refunded: REFUNDED,
    reported: MOST - REFUNDED,
  });

  await refund(id);
  await drain();
  t.deepEqual(billed(), {});
  await register(MOST);
  await drain();
  t.is((await readAccountSums(deps.db, stream.accountId)).usage, BigInt(MOST));
  const all = {
    registered: 2 * MOST,
    refunded: MOST,
    reported: MOST,
  };
  t.like((await readStatement(deps, stream, null)).statements[0]?.days[0], all);

  const day = second - (second % DAY);
  t.like(await compare({ start: day, end: day + DAY }), {
    delivered: MOST,
    processorQuantity: MOST,
  });
});

test("large counts of two organizations are registered, listed, refunded in part and billed exactly over HTTP", async (t) => {
  const { db } = t.context;
  const { deps, double, pass } = await setUpBilling(t);
  const { call } = await startStandaloneApi(t, { db, clock: deps.clock, billing: deps.billing });
  for (const [count, refunded] of [
    [MOST, 1_000_000_000_000_000],
    [3_000_000_000, 2_999_999_999],
  ] as const) {
    const { customerId, subscriptionId } = double.control.addSubscriber({});
    const { id: accountId, apiKeyProd: key } = await createTestOrganization(db, {
      clock: deps.clock,
      stripeCustomerId: customerId,
      stripeSubscriptionId: subscriptionId,
    });

    const created = await call("POST", "/plant/trees", { key, body: { count } });
    t.like(created.body, { total_planted_trees: count, total_planted_trees_month: count });
    const [registration] = registrationsIn(created.body, "tree");
    t.is(registration?.["count"], count);
    const listed = await call("GET", "/plant/trees", { key });
    t.is(listed.body["total_planted_trees"], count);
    t.is(registrationsIn(listed.body, "tree")[0]?.["count"], count);
    const body = { id: registration?.["id"], count: refunded };
    const refund = await call("POST", "/refund/trees", { key, body });
    t.like(refund.body, { refunded_trees: refunded, total_planted_trees: count - refunded });
    pass(5);
    const { kind } = await drainUsage(deps, { accountId, mode: "live", kind: "tree" });

    t.is(kind, "done");
    const values = double.control.usage({ customerId }).map(({ value }) => value);
    t.deepEqual(values, [count - refunded]);
    t.is((await readAccountSums(db, accountId)).usage, BigInt(count - refunded));
    const report = await call("GET", `/usage/${String(registration?.["id"])}`, { key });
    t.like(report.body, { count, refunded_count: refunded });
  }
});
