import { z } from "zod";
import { listWatchedSubscriptions } from "../../db/billing/processorEvents/stripeSubscriptions.ts";
import { sql } from "../../db/sql.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { freeLease } from "./dispatcher/dispatching.ts";

const test = testWithDatabase();

const SECRET = "whsec_of_the_tests";

// Serial, because a worker reads every subscription of the file's database.
test.serial(
  "a worker reads a subscription that was set before the first worker started",
  async (t) => {
    const { db, databaseUrl } = t.context;
    const double = await startStripeDouble();
    t.teardown(double.close);
    const { customerId, subscriptionId } = double.control.addSubscriber({});
    const { id } = await createTestOrganization(db, {
      stripeCustomerId: customerId,
      stripeSubscriptionId: subscriptionId,
    });
    const { namespace } = await openNamespace(t);

    await startProgram(t, "worker/main.ts", {
      DATABASE_URL: databaseUrl,
      TEMPORAL_NAMESPACE: namespace,
      STRIPE_SECRET_KEY: double.secretKey,
      STRIPE_API_BASE: double.url,
    });

    await eventually(async () => (await listWatchedSubscriptions(db, id)).length > 0);
    t.like((await listWatchedSubscriptions(db, id))[0], { status: "active" });
  },
);

test.serial(
  "a report that the API stores is processed by a worker, also if it was stored while no worker ran",
  async (t) => {
    const { db, databaseUrl } = t.context;
    await freeLease(db);
    const double = await startStripeDouble();
    t.teardown(double.close);
    const { control } = double;
    const { customerId, subscriptionId } = control.addSubscriber({});
    const organization = await createTestOrganization(db, {
      stripeCustomerId: customerId,
      stripeSubscriptionId: subscriptionId,
    });
    const { namespace } = await openNamespace(t);
    const settings = {
      DATABASE_URL: databaseUrl,
      TEMPORAL_NAMESPACE: namespace,
      STRIPE_SECRET_KEY: double.secretKey,
      STRIPE_API_BASE: double.url,
      STRIPE_WEBHOOK_SECRET: `whsec_old,${SECRET}`,
      // The rejection is logged as an error.
      LOG_LEVEL: "fatal",
    };
    const statesOf = (): Promise<readonly string[]> =>
      db.anyFirst(sql.type(z.strictObject({ state: z.string() }))`SELECT state FROM meter_event`);
    const { urls } = await startProgram(t, "api/main.ts", settings);
    const api = urls["standalone"] ?? "";
    control.setWebhook({ url: `${api}/webhooks/stripe`, secret: SECRET });
    const worker = await startProgram(t, "worker/main.ts", settings);
    control.addFault({ kind: "reject_later" });
    await fetch(`${api}/plant/trees`, {
      method: "POST",
      headers: { authorization: organization.apiKeyProd, "content-type": "application/json" },
      body: JSON.stringify({ count: 5 }),
    });
    await eventually(async () => (await statesOf()).includes("delivered"));
    await worker.kill();
    t.deepEqual(await control.reportErrors({}), [200]);
    await freeLease(db);
    await startProgram(t, "worker/main.ts", settings);
    await eventually(async () => (await statesOf()).includes("rejected"));
    t.deepEqual(await statesOf(), ["rejected"]);
  },
);
