import { createStripeClient } from "../../providers/billing/stripe/createStripeClient.ts";
import { reconcileUsage } from "../../services/reconcileUsage.ts";
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
  t.like(streams[0], { delivered: 250, processorQuantity: 275, drift: 25, fault: null });
  t.is(streams[0]?.differences.length, 20);
  t.deepEqual(streams[0]?.differences[0], { minute: start, ours: 10, processor: 11 });
});
