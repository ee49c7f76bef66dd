import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../../program/server/probePort.ts";
import { createSupervisor } from "../../embedded/createSupervisor.ts";
import { findTemporalCli } from "../../embedded/temporal/findTemporalCli.ts";
import { startTemporalServer } from "../../embedded/temporal/startTemporalServer.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test("registrations are accepted while Temporal is down and billed when it is back, and the worker still stops gracefully", async (t) => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { customerId, subscriptionId } = double.control.addSubscriber({});
  const { apiKeyProd } = await createTestOrganization(db, {
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  const folder = await mkdtemp(join(tmpdir(), "impact-temporal-"));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const port = await findFreePort();
  const supervisor = createSupervisor(folder, () => undefined);
  t.teardown(supervisor.stopAll);
  const startTemporal = async () =>
    startTemporalServer({
      cli: await findTemporalCli({
        setting: process.env["TEMPORAL_CLI"],
        context: supervisor.context,
      }),
      databaseFile: join(folder, "temporal.db"),
      namespace: "default",
      port,
      uiPort: null,
      logFile: join(folder, "temporal.log"),
      context: supervisor.context,
    });
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
    // Errors about Temporal are expected.
    LOG_LEVEL: "fatal",
  };
  const billed = (): number =>
    double.control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0);

  const { urls } = await startProgram(t, "api/main.ts", settings);
  const { process: worker } = await startProgram(t, "worker/main.ts", settings);
  const api = urls["standalone"] ?? "";
  const plant = async (count: number): Promise<void> => {
    const response = await fetch(`${api}/plant/trees`, {
      method: "POST",
      headers: { authorization: apiKeyProd, "content-type": "application/json" },
      body: JSON.stringify({ count }),
    });
    t.is(response.status, 200);
  };

  await plant(3);
  const readiness = await fetch(`${api}/readyz`);
  t.is(readiness.status, 200);
  t.deepEqual(await readiness.json(), {
    status: "ok",
    database: "ok",
    clock: "ok",
    temporal: "unreachable",
  });

  const server = await startTemporal();
  await eventually(() => billed() === 3);

  await server.process.stop();
  await plant(4);
  await startTemporal();
  await eventually(() => billed() === 7);
  t.is(double.control.overlaps(), 0);

  worker.kill("SIGTERM");
  t.deepEqual(await once(worker, "exit"), [0, null]);
});
