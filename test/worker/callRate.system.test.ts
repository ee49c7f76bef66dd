import { testWithDatabase } from "../support/database.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test("a worker limits the calls of all workers to those that its setting allows", async (t) => {
  const { namespace } = await openNamespace(t);
  const { urls } = await startProgram(t, "worker/main.ts", {
    DATABASE_URL: t.context.databaseUrl,
    TEMPORAL_NAMESPACE: namespace,
    STRIPE_CALLS_PER_SECOND: "25",
    WORKER_METRICS_PORT: "0",
    LOG_LEVEL: "silent",
  });

  await eventually(async () => {
    const metrics = await fetch(`${urls["metrics"]}/metrics`);
    return /^impact_stripe_calls_per_second 25$/mu.test(await metrics.text());
  });
  t.pass();
});
