import { Writable } from "node:stream";
import { pino } from "pino";
import { Registry } from "prom-client";
import { z } from "zod";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { createStripeClient } from "../../modules/billing/stripe/createStripeClient.ts";
import { guardUsage, holdUsage, resumeUsage } from "../../modules/billing/holdUsage.ts";
import { addDatabaseMetrics } from "../../worker/addDatabaseMetrics.ts";
import { prepareProcessor } from "../../worker/prepareProcessor.ts";
import { createRepeatedLog } from "../../worker/repeatedCalls.ts";
import { watchHold } from "../../worker/watchHold.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

test("the worker fails when a retry finds a meter with another aggregation", async (t) => {
  const double = await startStripeDouble(t);
  const { stripe } = double;
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
    { billing, logger: pino({ level: "silent" }), retryIntervalMs: 10 },
    shutdown.signal,
  );

  await t.throwsAsync(failed, {
    instanceOf: StartupError,
    message: /aggregates by last, not sum/u,
  });
});

test("a hold is a metric, and a worker logs it with the next command until it ends", async (t) => {
  const { db } = t.context;
  const clock = systemClock;
  const lines: string[] = [];
  const logger = pino(
    new Writable({
      write: (chunk: Buffer, _, done) => {
        lines.push(chunk.toString());
        done();
      },
    }),
  );
  const registry = new Registry();
  const refreshMetrics = addDatabaseMetrics(registry, { db, clock, monotonicMs: () => 0 });
  const readMetric = async (): Promise<string> => {
    await refreshMetrics();
    return registry.getSingleMetricAsString("impact_usage_held");
  };
  const watchOnce = async (): Promise<void> => {
    const stop = new AbortController();
    const { ended } = await watchHold({ db, clock, logger }, stop.signal);
    stop.abort();
    await ended;
  };
  await guardUsage({ db, clock });
  await watchOnce();
  t.regex(await readMetric(), /^impact_usage_held 0$/mu);
  t.deepEqual(lines, []);

  await holdUsage({ db, clock, actor: SERVICE }, { reason: "failover drill", by: "ada" });
  await watchOnce();

  t.regex(await readMetric(), /^impact_usage_held 1$/mu);
  t.is(lines.length, 1);
  t.regex(
    lines.join(""),
    /"level":50.*usage is held by ada: failover drill\. .*impact usage resume/u,
  );
  await resumeUsage({ db, clock, actor: SERVICE });
  await watchOnce();
  t.regex(await readMetric(), /^impact_usage_held 0$/mu);
  t.is(lines.length, 1);
});

test("an organization's usage that is rejected for one reason again and again is one line", (t) => {
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line) => void lines.push(line) });
  const log = createRepeatedLog(logger, "usage was rejected");

  for (let second = 0; second < 1000; second += 1) {
    log("one late", { accountId: "one", cause: "late" });
  }
  log("one refused", { accountId: "one", cause: "refused" });
  log("other late", { accountId: "other", cause: "late" });

  t.deepEqual(
    lines.map((line) => z.looseObject({ accountId: z.string() }).parse(JSON.parse(line)).accountId),
    ["one", "one", "other"],
  );
});
