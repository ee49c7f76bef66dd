import { z } from "zod";
import { systemClock } from "../../domain/clock.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { connectStripe } from "../../providers/billing/stripe/connectStripe.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { readJson, runImpact } from "./runImpact.ts";

const test = testWithDatabase();

const findings = z.array(z.object({ check: z.string(), status: z.string(), detail: z.string() }));

test("an organization without a Stripe customer is a warning until it has live usage", async (t) => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  await createBilling({
    db,
    stripe: connectStripe({ secretKey: double.secretKey, apiBase: double.url }),
  }).prepare();
  const { id } = await createTestOrganization(db, { name: "Demo organization" });
  const register = (mode: "live" | "test") =>
    createRegistrationWriter({ db, clock: systemClock }).register(registrationOf(id, { mode }));
  const checkCustomers = async () => {
    const run = await runImpact(["doctor", "--json"], {
      env: {
        DATABASE_URL: databaseUrl,
        TEMPORAL_ADDRESS: "127.0.0.1:1",
        STRIPE_SECRET_KEY: double.secretKey,
        STRIPE_API_BASE: double.url,
      },
    });
    return findings.parse(readJson(run)).find(({ check }) => check === "Stripe customers");
  };

  await register("test");
  const warned = await checkCustomers();
  await register("live");
  const wrong = await checkCustomers();

  t.is(warned?.status, "warning");
  t.regex(
    warned?.detail ?? "",
    /^1 organization has no Stripe customer, such as Demo organization\. Before .*--stripe-customer/u,
  );
  t.is(wrong?.status, "wrong");
  t.regex(wrong?.detail ?? "", /^1 organization with live usage has no Stripe customer/u);
});
