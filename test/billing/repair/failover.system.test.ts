import test from "ava";
import { z } from "zod";
import { migrate } from "../../../db/migrate.ts";
import { sql } from "../../../db/sql.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { readJson } from "../../cli/runImpact.ts";
import { createRandom } from "../../support/random.ts";
import { startCluster } from "../../support/startCluster.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

const LAG_SECONDS = 16 * 60;

const reconciled = z.object({ streams: z.array(z.object({ drift: z.int().nullable() })) });

test("after a failover to an asynchronous standby that lost two minutes, every minute is billed once", async (t) => {
  const cluster = await startCluster(t);
  await migrate(cluster.primaryUrl);
  const scene = await setUpRestore(t, { databaseUrl: cluster.primaryUrl });
  const { register, refund, drain, pass, impact, control, original } = scene;
  const random = createRandom(7);
  const requests: { readonly key: string; readonly count: number }[] = [];
  const ids: string[] = [];
  /** Registrations and refunds of some seconds, of which most are sent meanwhile. */
  const work = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      const count = 1 + random.below(9);
      const key = `order-${requests.length}`;
      requests.push({ key, count });
      ids.push(await register(original, count, key));
      const earlier = ids.at(-6);
      if (second % 10 === 9 && earlier !== undefined) {
        await refund(original, earlier, 1);
      }
      pass(1);
      if (second % 4 === 0) {
        await drain(original);
      }
    }
  };
  await work(90);
  await cluster.disconnectStandby();
  const restoredAt = new Date(control.now() * 1000).toISOString();
  await work(120);
  await original.db.end();
  await cluster.failOver();
  const promoted = await scene.open(cluster.standbyUrl);

  // The promoted server holds usage by itself, and clients go on.
  t.truthy(await guardUsage(promoted.deps));
  await register(promoted, 1000);
  t.like(await drain(promoted), { cause: "held" });
  pass(LAG_SECONDS);
  const run = await impact(promoted, "usage", "compare-and-release");
  t.is(run.exitCode, 0, run.stderr);
  await drain(promoted);
  pass(LAG_SECONDS);

  const correct = ["usage", "correct", "--restored-at", restoredAt, "--include-lost-refunds"];
  const proposed = await impact(promoted, ...correct, "--dry-run");
  t.regex(proposed.stderr, /[1-9]\d* corrections? proposed/u);
  const corrected = await impact(promoted, ...correct, "--reason", "failover");
  t.is(corrected.exitCode, 0, corrected.stderr);
  // Clients repeat everything under the old keys; what was not lost is replayed.
  for (const { key, count } of requests) {
    await register(promoted, count, key);
  }
  pass(5);
  while ((await drain(promoted)).kind === "more") {
    pass(1);
  }

  const recorded = await promoted.db.any(sql.type(
    z.strictObject({ minute: z.bigint(), units: z.bigint() }),
  )`
    SELECT
      (floor(extract(epoch FROM created_at))::bigint - ${NOON}::bigint) / 60 AS minute,
      sum(count - refunded_count)::bigint AS units
    FROM registration
    GROUP BY 1
    HAVING sum(count - refunded_count) <> 0
    ORDER BY 1
  `);
  t.deepEqual(
    scene.billedByMinute(),
    Object.fromEntries(recorded.map(({ minute, units }) => [Number(minute), Number(units)])),
  );
  pass(LAG_SECONDS);
  const compared = await impact(promoted, "usage", "reconcile", "--json");
  t.deepEqual(
    reconciled.parse(readJson(compared)).streams.map(({ drift }) => drift),
    [0],
  );
  t.deepEqual(control.problems(), []);
});
