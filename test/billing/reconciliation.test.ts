import { createStripeClient } from "../../providers/billing/stripe/createStripeClient.ts";
import {
  listStreamsNeedingAttention,
  reconcileUsage,
} from "../../services/billing/reconcileUsage.ts";
import { testWithDatabase } from "../support/database.ts";
import { setUpBilling } from "./billingSetup.ts";

const test = testWithDatabase();

test("drift over many minutes is told in full, with the first minutes of it", async (t) => {
  const { deps, stream, register, drain, pass, double, customerId } = await setUpBilling(t);
  const { stripe } = createStripeClient({ secretKey: double.secretKey, apiBase: double.url });
  const start = double.control.now();
  for (let minute = 0; minute < 25; minute += 1) {
    await register(10);
    // Somebody else reports usage of the same customer.
    await stripe.billing.meterEvents.create({
      event_name: "impact_tree_planted",
      payload: { stripe_customer_id: customerId, value: "1" },
      timestamp: double.control.now(),
    });
    pass(60);
  }
  await drain();
  pass(3600);

  const { streams } = await reconcileUsage(
    deps,
    { accountId: stream.accountId },
    new AbortController().signal,
  );

  t.is(streams.length, 1);
  t.like(streams[0], { delivered: 250, processorQuantity: 275, drift: 25, error: null });
  t.is(streams[0]?.differences.length, 20);
  t.deepEqual(streams[0]?.differences[0], {
    minute: start,
    ours: 10,
    processor: 11,
    mayLag: false,
  });
  t.is(listStreamsNeedingAttention(streams).length, 1);
});

const LAGGING = { summaryDelaySeconds: 120 };

test("what was refunded a minute ago is no drift while the processor's sums may lag", async (t) => {
  const { deps, stream, register, refund, drain, pass } = await setUpBilling(t, LAGGING);
  const reconcile = async () =>
    (await reconcileUsage(deps, stream, new AbortController().signal)).streams;
  const id = await register(7);
  await drain();
  pass(3600);
  await refund(id, 2);
  await drain();

  const [lagging] = await reconcile();
  pass(120);
  const [caughtUp] = await reconcile();

  t.like(lagging, { delivered: 5, processorQuantity: 7, drift: 2 });
  t.like(lagging?.differences[0], { ours: 5, processor: 7, mayLag: true });
  t.deepEqual(listStreamsNeedingAttention(lagging ? [lagging] : []), []);
  t.like(caughtUp, { drift: 0, differences: [] });
});

test("what lag cannot explain is drift, however late other usage of that minute was delivered", async (t) => {
  const { deps, stream, register, refund, drain, pass, double, customerId } = await setUpBilling(
    t,
    LAGGING,
  );
  const { stripe } = createStripeClient({ secretKey: double.secretKey, apiBase: double.url });
  const second = double.control.now();
  const id = await register(7);
  await stripe.billing.meterEvents.create({
    event_name: "impact_tree_planted",
    payload: { stripe_customer_id: customerId, value: "3" },
    timestamp: second,
  });
  await drain();
  pass(3600);
  await refund(id, 2);
  await drain();

  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);

  t.like(streams[0]?.differences[0], { ours: 5, processor: 10, mayLag: false });
  t.is(listStreamsNeedingAttention(streams).length, 1);
});

test("behind as many lagging minutes as are looked at there may be drift", async (t) => {
  const { deps, stream, register, refund, drain, pass, double, customerId } = await setUpBilling(
    t,
    LAGGING,
  );
  const { stripe } = createStripeClient({ secretKey: double.secretKey, apiBase: double.url });
  const ids: string[] = [];
  for (let minute = 0; minute < 20; minute += 1) {
    ids.push(await register(2));
    pass(60);
  }
  await stripe.billing.meterEvents.create({
    event_name: "impact_tree_planted",
    payload: { stripe_customer_id: customerId, value: "1000" },
    timestamp: double.control.now(),
  });
  await drain();
  pass(3600);
  for (const id of ids) {
    await refund(id, 1);
  }
  await drain();

  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);

  t.true(streams[0]?.differences.every(({ mayLag }) => mayLag));
  t.is(listStreamsNeedingAttention(streams).length, 1);
});

test("usage that never arrives is drift once the processor's sums cannot lag any more", async (t) => {
  const { deps, stream, register, drain, pass, double } = await setUpBilling(t, LAGGING);
  const suspicious = async () =>
    listStreamsNeedingAttention(
      (await reconcileUsage(deps, stream, new AbortController().signal)).streams,
    );
  await register(7);
  pass(3600);
  double.control.addFault({ kind: "reject_later" });
  await drain();

  t.deepEqual(await suspicious(), []);
  pass(15 * 60);
  t.like((await suspicious())[0], { drift: -7 });
});

test("a stream counts only where the polls before have found it too", async (t) => {
  const { deps, stream, register, drain, pass, double } = await setUpBilling(t);
  await register(7);
  double.control.addFault({ kind: "reject_later" });
  await drain();
  pass(3600);

  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);

  t.is(listStreamsNeedingAttention(streams, null).length, 1);
  t.is(listStreamsNeedingAttention(streams, streams).length, 1);
  t.is(listStreamsNeedingAttention(streams, []).length, 0);
  t.is(
    listStreamsNeedingAttention(
      streams,
      streams.map((other) => Object.assign({}, other, { customerId: "cus_other" })),
    ).length,
    0,
  );
});
