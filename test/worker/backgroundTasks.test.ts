import { pino } from "pino";
import { Registry } from "prom-client";
import { z } from "zod";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Clock } from "../../runtime/clock.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { createStripeClient } from "../../modules/billing/stripe/createStripeClient.ts";
import { guardUsage, holdUsage, resumeUsage } from "../../modules/billing/holdUsage.ts";
import { addDatabaseMetrics } from "../../worker/addDatabaseMetrics.ts";
import { prepareProcessor } from "../../worker/prepareProcessor.ts";
import { createRepeatedLog } from "../../worker/repeatedCalls.ts";
import { watchHold } from "../../worker/deployment.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";

// Serial, because the metrics are of the whole database.
const test = testWithDatabase().serial;

test("a worker starts while Stripe is down, and does not if a meter has another aggregation", async (t) => {
  const { stripe, control } = await startStripeDouble(t);
  await createStripeClient(stripe).stripe.billing.meters.create({
    display_name: "Trees",
    event_name: "impact_tree_planted",
    default_aggregation: { formula: "last" },
  });
  const billing = createBilling({ db: t.context.db, stripe: connectStripe(stripe) });
  const prepare = () => prepareProcessor({ billing, logger: pino({ level: "silent" }) });

  control.addFault({ kind: "server_error", method: "GET", path: "/v1/billing/meters" });
  await t.notThrowsAsync(prepare());
  const message = /aggregates by last, not sum/u;
  await t.throwsAsync(prepare(), { instanceOf: StartupError, message });
});

test("a hold is a metric, and a worker logs it with the next command until it ends", async (t) => {
  const { db } = t.context;
  const lines: string[] = [];
  const logger = pino({}, { write: (line) => void lines.push(line) });
  const registry = new Registry();
  const context = { db, clock: systemClock };
  const refreshMetrics = addDatabaseMetrics(registry, { ...context, monotonicMs: () => 0 });
  const readMetric = async (): Promise<string> => {
    await refreshMetrics();
    return registry.getSingleMetricAsString("impact_usage_held");
  };
  const watchOnce = async (): Promise<void> => {
    const stop = new AbortController();
    const { ended } = await watchHold({ ...context, logger }, stop.signal);
    stop.abort();
    await ended;
  };
  await guardUsage(context);
  await watchOnce();
  t.regex(await readMetric(), /^impact_usage_held 0$/mu);
  t.deepEqual(lines, []);

  await holdUsage({ ...context, actor: SERVICE }, { reason: "failover drill", by: "ada" });
  await watchOnce();

  t.regex(await readMetric(), /^impact_usage_held 1$/mu);
  t.is(lines.length, 1);
  const logged = /"level":50.*usage is held by ada: failover drill\. .*impact usage resume/u;
  t.regex(lines.join(""), logged);
  await resumeUsage({ ...context, actor: SERVICE });
  await watchOnce();
  t.regex(await readMetric(), /^impact_usage_held 0$/mu);
  t.is(lines.length, 1);
});

test("an organization's usage that is rejected for one reason again and again is one line", (t) => {
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line) => void lines.push(line) });
  const log = createRepeatedLog(logger, "error", "usage was rejected");

  for (let second = 0; second < 1000; second += 1) {
    log({ accountId: "one" }, "one late");
  }
  log({ accountId: "one" }, "one refused");
  log({ accountId: "other" }, "other late");

  t.deepEqual(
    lines.map((line) => z.looseObject({ accountId: z.string() }).parse(JSON.parse(line)).accountId),
    ["one", "one", "other"],
  );
});

/** More than a function can have as arguments. */
const STREAMS = 130_000;
const NOW = new Date("2026-11-02T00:00:00Z");
const clock: Clock = { now: () => NOW };

test("waiting usage is counted, however many streams wait, and rarely if that is costly", async (t) => {
  const { db, owner } = t.context;
  await owner.query(sql.typeAlias("void")`DELETE FROM usage_fact`);
  const second = NOW.getTime() / 1000 - 100;
  const addStreams = (count: number) =>
    owner.query(sql.typeAlias("void")`
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
      SELECT gen_random_uuid(), 'live', 'tree', 0, 1, ${second} + number % 100
      FROM generate_series(1, ${count}::integer) AS number
    `);
  await addStreams(STREAMS);
  const registry = new Registry();
  let nowMs = 0;
  // Each query seems to take 10 ms at least.
  const refresh = addDatabaseMetrics(registry, { db, clock, monotonicMs: () => (nowMs += 10) });
  const read = async (name: string): Promise<string | undefined> =>
    (await registry.getSingleMetricAsString(name)).split(" ").at(-1);

  await refresh();
  t.is(await read("impact_usage_waiting_streams"), "130000");
  t.is(await read("impact_usage_oldest_unreported_age_seconds"), "100");

  await addStreams(1);
  await refresh();
  t.is(await read("impact_usage_waiting_streams"), "130000");
  nowMs += 60_000;
  await refresh();
  t.is(await read("impact_usage_waiting_streams"), "130001");
});
