import { pino } from "pino";
import { StartupError } from "../../program/startupError.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { connectStripe } from "../../providers/billing/stripe/connectStripe.ts";
import { createStripeClient } from "../../providers/billing/stripe/createStripeClient.ts";
import { prepareProcessor } from "../../worker/prepareProcessor.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

const logger = pino({ level: "silent" });

test("the worker fails when a retry finds a meter with another aggregation", async (t) => {
  const double = await startStripeDouble();
  t.teardown(double.close);
  const stripe = { apiBase: double.url, secretKey: double.secretKey };
  await createStripeClient(stripe).stripe.billing.meters.create({
    display_name: "Trees",
    event_name: "impact_tree_planted",
    default_aggregation: { formula: "last" },
  });
  double.control.addFault({
    kind: "server_error",
    method: "GET",
    path: "/v1/billing/meters",
    times: 3,
  });
  const billing = createBilling({ db: t.context.db, stripe: connectStripe(stripe) });
  const shutdown = new AbortController();

  const { failed } = await prepareProcessor(
    { billing, logger, retryIntervalMs: 10 },
    shutdown.signal,
  );

  await t.throwsAsync(failed, {
    instanceOf: StartupError,
    message: /aggregates by last, not sum/u,
  });
});
