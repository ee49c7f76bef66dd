import { readFile } from "node:fs/promises";
import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { Registry } from "prom-client";
import { z } from "zod";
import { addLoadMetrics, createApiMetrics } from "../../api/http/createApiMetrics.ts";
import { systemClock } from "../../runtime/clock.ts";
import { addHealthMetrics, addPoolMetrics } from "../../runtime/gauges.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { addDatabaseMetrics } from "../../worker/addDatabaseMetrics.ts";
import { createWorkerMetrics } from "../../worker/createWorkerMetrics.ts";

const test = testWithDatabase();

const readText = (path: string): Promise<string> =>
  readFile(new URL(`../../${path}`, import.meta.url), "utf8");

/** Returns the names of our metrics that an API and a worker export, as they name them in their help. */
const listExported = async (
  t: ExecutionContext<DatabaseContext>,
): Promise<{ readonly metrics: readonly string[]; readonly series: ReadonlySet<string> }> => {
  const api = createApiMetrics();
  addLoadMetrics(api.registry, { openLists: () => 0, queueLength: () => 0 });
  const logger = pino({ level: "silent" });
  const worker = createWorkerMetrics({ db: t.context.db, clock: systemClock, logger });
  addHealthMetrics(worker.registry, () => ({
    status: "ok",
    database: "ok",
    clock: "ok",
    temporal: "ok",
  }));
  addPoolMetrics(worker.registry, { main: t.context.db });
  // Metrics of the database are exported once they have been read.
  const database = new Registry();
  await addDatabaseMetrics(database, { db: t.context.db, clock: systemClock })();
  const described = await Promise.all(
    [api.registry, worker.registry, database].map((registry) => registry.getMetricsAsJSON()),
  );
  const ours = described.flat().filter(({ name }) => name.startsWith("impact_"));
  return {
    metrics: [...new Set(ours.map(({ name }) => name))],
    series: new Set(
      ours.flatMap(({ name, type }) =>
        String(type) === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
      ),
    ),
  };
};

const metricsIn = (text: string): readonly string[] => [
  ...new Set([...text.matchAll(/\bimpact_[a-z_]+/gu)].map(([name]) => name)),
];

const panel = z.looseObject({
  id: z.int(),
  type: z.string(),
  gridPos: z.strictObject({ x: z.int(), y: z.int(), w: z.int(), h: z.int() }),
  targets: z.array(z.looseObject({ expr: z.string() })).default([]),
});

const readDashboard = async () =>
  z
    .looseObject({ panels: z.array(panel) })
    .parse(JSON.parse(await readText("deploy/grafana/dashboard.json")));

/** Returns each alert of the rules with its annotations. The file's syntax is checked by promtool. */
const readAlerts = async (): Promise<readonly { name: string; text: string }[]> => {
  const [, ...alerts] = (await readText("deploy/prometheus/rules.yml")).split("- alert: ");
  return alerts.map((text) => ({ name: text.split("\n", 1)[0] ?? "", text }));
};

test("docs/monitoring.md describes every metric of the programs, and no other", async (t) => {
  const { metrics } = await listExported(t);
  const rows = (await readText("docs/monitoring.md")).matchAll(/^\| `(?<name>impact_\w+)` +\|/gmu);
  t.deepEqual([...rows].map(({ groups }) => groups?.["name"] ?? "").toSorted(), metrics.toSorted());
});

test("the alerts and the dashboard use only metrics that the programs export", async (t) => {
  const { series } = await listExported(t);
  const expressions = (await readDashboard()).panels.flatMap(({ targets }) =>
    targets.map(({ expr }) => expr),
  );
  const rules = (await readText("deploy/prometheus/rules.yml")).matchAll(
    /^ +expr: (?<expr>.+)$/gmu,
  );
  const used = metricsIn(
    [...expressions, ...[...rules].map(({ groups }) => groups?.["expr"])].join("\n"),
  );
  t.true(used.length > 15);
  t.deepEqual(
    used.filter((name) => !series.has(name)),
    [],
  );
});

test("every metric of the programs is on the dashboard", async (t) => {
  const { panels } = await readDashboard();
  const shown = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join("\n");
  const { metrics } = await listExported(t);
  t.deepEqual(
    metrics.filter((name) => !shown.includes(name)),
    [],
  );
});

test("every alert says what it means and which command to run, as docs/monitoring.md does", async (t) => {
  const alerts = await readAlerts();
  for (const { name, text } of alerts) {
    t.regex(text, /^ +summary: ./mu, name);
    t.regex(text, /^ +description: ./mu, name);
    t.regex(text, /^ +command: (?:impact|psql) ./mu, name);
  }
  // The first command of a row is the alert's.
  const rows = (await readText("docs/monitoring.md")).matchAll(
    /^\| `(?<name>Impact\w+)` +\|.*?`(?<command>(?:impact|psql) [^`]+)`/gmu,
  );
  t.deepEqual(
    [...rows].map(({ groups }) => [groups?.["name"], groups?.["command"]]),
    alerts.map(({ name, text }) => [name, /^ +command: (?<command>.+)$/mu.exec(text)?.[1]]),
  );
});

test("every alert has a unit test", async (t) => {
  const tests = await readText("deploy/prometheus/rules.test.yml");
  const untested = (await readAlerts()).filter(({ name }) => !tests.includes(name));
  t.deepEqual(untested, []);
});

test("the dashboard's panels have their own ids and do not overlap", async (t) => {
  const { panels } = await readDashboard();
  t.is(new Set(panels.map(({ id }) => id)).size, panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)}/${y + Math.floor(cell / w)}`),
  );
  t.is(new Set(cells).size, cells.length);
});
