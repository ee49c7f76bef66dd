import { testWithDatabase } from "../support/database.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { startRelay } from "../support/relay.ts";

const test = testWithDatabase();

test("a worker without its database is alive, not ready, and reports its last metrics", async (t) => {
  const { namespace } = await openNamespace(t);
  const relay = await startRelay(t, t.context.databaseUrl);
  const { urls } = await startProgram(t, "worker/main.ts", {
    DATABASE_URL: relay.url,
    TEMPORAL_NAMESPACE: namespace,
    WORKER_METRICS_PORT: "0",
    LOG_LEVEL: "silent",
  });
  const read = async (path: string) => {
    const response = await fetch(`${urls["metrics"]}${path}`);
    return { status: response.status, text: await response.text() };
  };
  await eventually(async () => (await read("/readyz")).status === 200);
  t.deepEqual(JSON.parse((await read("/readyz")).text), {
    status: "ok",
    database: "ok",
    clock: "ok",
    temporal: "ok",
  });
  // A scrape does not wait long for the database, so on a busy machine the first ones are without its metrics.
  await eventually(async () => /^impact_usage_held 0$/mu.test((await read("/metrics")).text));
  t.regex((await read("/metrics")).text, /^impact_database_up 1$/mu);

  relay.cut();

  await eventually(async () => (await read("/readyz")).status === 503);
  const after = await read("/metrics");
  t.is(after.status, 200);
  t.regex(after.text, /^impact_database_up 0$/mu);
  t.regex(after.text, /^impact_temporal_up 1$/mu);
  t.regex(after.text, /^impact_usage_held 0$/mu);
  t.is((await read("/healthz")).status, 200);
  t.is((await read("/")).status, 404);
});
