import { Writable } from "node:stream";
import pino from "pino";
import { Registry } from "prom-client";
import { SERVICE } from "../../domain/accounts/audit.ts";
import { systemClock } from "../../domain/clock.ts";
import { guardUsage, holdUsage, releaseUsage } from "../../services/billing/holdUsage.ts";
import { addDatabaseMetrics } from "../../worker/metrics/addDatabaseMetrics.ts";
import { watchHold } from "../../worker/watchHold.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

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
  const refreshMetrics = addDatabaseMetrics(registry, { db, clock });
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
    /"level":50.*usage is held by ada: failover drill\. .*reconcile --after-restore/u,
  );
  await releaseUsage({ db, clock, actor: SERVICE }, "ada");
  await watchOnce();
  t.regex(await readMetric(), /^impact_usage_held 0$/mu);
  t.is(lines.length, 1);
});
