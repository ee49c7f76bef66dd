import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { access, glob, readdir, readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { Registry } from "prom-client";
import { z } from "zod";
import { createApiMetrics } from "../../api/http/createApiMetrics.ts";
import { EVENT_DATA, STORE_EVENT_DATA } from "../../modules/events/events.rules.ts";
import { PING, WEBHOOK_TYPES } from "../../modules/events/webhooks.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { addProcessMetrics } from "../../runtime/gauges.ts";
import { addDatabaseMetrics } from "../../worker/addDatabaseMetrics.ts";
import { createWorkerMetrics } from "../../worker/createWorkerMetrics.ts";
import { READY } from "../api/testContext.ts";
import { buildTestProgram } from "../cli/runImpact.ts";
import { SHOTS } from "../dashboard/screenshots.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";

const test = testWithDatabase();

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

const readText = (path: string): Promise<string> => readFile(join(ROOT, path), "utf8");

/** Returns what the group of a pattern matches in a text, in the order of the text. */
const allOf = (text: string, pattern: RegExp): readonly string[] =>
  Array.from(text.matchAll(pattern), ([, found = ""]) => found);

/** Returns the anchor that GitHub gives a heading. */
const anchorOf = (heading: string): string =>
  heading
    .replaceAll(/[^\p{L}\p{N}\p{M}\p{Pc} -]/gu, "")
    .toLowerCase()
    .replaceAll(" ", "-");

const readAnchors = async (path: string): Promise<readonly string[]> =>
  allOf(await readText(path), /^#+ (.+)$/gmu).map(anchorOf);

/** Returns what is wrong with a link, null if its file and its heading exist. */
const checkLink = async (page: string, target: string): Promise<string | null> => {
  const [path = "", anchor] = target.split("#", 2);
  const file = path === "" ? page : join(dirname(page), path);
  try {
    await access(join(ROOT, file));
  } catch {
    return `${page}: ${target} does not exist`;
  }
  return anchor === undefined || (await readAnchors(file)).includes(anchor)
    ? null
    : `${page}: ${target} has no such heading`;
};

test("links between pages lead to files and headings that exist", async (t) => {
  const pages = glob(
    [
      "*.md",
      "clients/*/*.md",
      "deploy/**/*.md",
      "docs/**/*.md",
      ".github/**/*.md",
      "modules/*/*.md",
      "test/**/*.md",
    ],
    { cwd: ROOT },
  );
  const checks: Promise<string | null>[] = [];
  for await (const page of pages) {
    const links = allOf(await readText(page), /\]\(([^)\s]+)\)/gu);
    const internal = links.filter((target) => !/^[a-z]+:/u.test(target));
    checks.push(...internal.map((target) => checkLink(page, target)));
  }
  t.true(checks.length > 50);
  const problems = (await Promise.all(checks)).filter((problem) => problem !== null);
  t.deepEqual(problems, []);
});

test("every module has a README, and each file that it names exists", async (t) => {
  const missing: string[] = [];
  const modules = await readdir(join(ROOT, "modules"));
  t.true(modules.length >= 10);
  for (const module of modules) {
    const text = await readText(`modules/${module}/README.md`);
    for (const name of allOf(text, /`([\w/.]+\.ts|[\w/]+\/)`/gu)) {
      const inModule = access(join(ROOT, "modules", module, name));
      const inRoot = access(join(ROOT, name));
      await Promise.any([inModule, inRoot]).catch(() => missing.push(`${module}: ${name}`));
    }
  }
  t.deepEqual(missing, []);
});

test("the list of decisions has every decision with its title", async (t) => {
  const list = await readText("docs/adr/README.md");
  const links: string[] = [];
  for await (const page of glob("0*.md", { cwd: join(ROOT, "docs/adr") })) {
    const [title] = allOf(await readText(join("docs/adr", page)), /^# \d+\. (.+)$/gmu);
    links.push(`[${title}](${page})`);
  }
  t.true(links.length >= 15);
  const unlisted = links.filter((link) => !list.includes(link));
  t.deepEqual(unlisted, []);
});

const PAGES_WITH_COMMANDS = [
  "README.md",
  "docs/*.md",
  "deploy/helm/impact/README.md",
  "deploy/prometheus/*.yml",
];

/** Returns every `impact` command line of a page, from code spans, shell blocks, scripts and the annotations of alerts. */
const readCommandLines = (text: string): readonly string[] => [
  ...allOf(text, /`impact ([^`]+)`/gu),
  ...allOf(text.replaceAll(/\\\n/gu, " "), /^ *(?:[A-Z_]+=\S+ +)*impact ([a-z][^|>#)\n`]+)/gmu),
  ...allOf(text, /\bimpact -- ([a-z-][^|>#)\n`]+)/gu),
  ...allOf(text, /^ +command: impact (.+)$/gmu),
];

/** Returns what is wrong with a command line, null if its command and its options exist. */
const checkCommandLine = (program: CommandUnknownOpts, line: string): string | null => {
  const words = line.split(/[\s[\]]+/u).filter(Boolean);
  let command = program;
  let depth = 0;
  for (const word of words) {
    const next = command.commands.find((each) => [each.name(), ...each.aliases()].includes(word));
    if (!next) {
      break;
    }
    command = next;
    depth += 1;
  }
  const options = new Set(command.options.map(({ long }) => long));
  const unknown = words.filter((word) => word.startsWith("--") && !options.has(word));
  if (command === program) {
    return words[0] === "--help" ? null : `${line}: no such command`;
  }
  // A group with options is a command of its own, without arguments.
  const isGroup = command.commands.length > 0;
  if (isGroup && (options.size === 0 || words[depth]?.startsWith("--") === false)) {
    return `${line}: not a complete command`;
  }
  return unknown.length === 0 ? null : `${line}: no ${unknown.join(", ")}`;
};

test("docs/webhooks.md has every type of event, which endpoints can choose", async (t) => {
  const stored = Object.keys({ ...EVENT_DATA, ...STORE_EVENT_DATA }).filter(
    // A feed has it, and endpoints only what happens after the request.
    (type) => type !== "registration.created",
  );
  t.deepEqual(WEBHOOK_TYPES.toSorted(), stored.toSorted());
  const rows = allOf(await readText("docs/webhooks.md"), /^\| (`[\w.`, ]+`) +\|/gmu);
  t.deepEqual(
    rows.flatMap((types) => types.replaceAll("`", "").split(", ")).toSorted(),
    [...stored, PING].toSorted(),
  );
});

test("every command in the documentation exists, with its options", async (t) => {
  const program = await buildTestProgram();
  const problems: string[] = [];
  let checked = 0;
  for await (const page of glob(PAGES_WITH_COMMANDS, { cwd: ROOT })) {
    for (const line of readCommandLines(await readText(page))) {
      const problem = checkCommandLine(program, line);
      checked += 1;
      problems.push(...(problem === null ? [] : [`${page}: ${problem}`]));
    }
  }
  t.true(checked > 30);
  t.deepEqual(problems, []);
});

test("every npm script in the documentation exists", async (t) => {
  const { scripts } = z
    .object({ scripts: z.record(z.string(), z.string()) })
    .parse(JSON.parse(await readText("package.json")));
  const named = new Set<string>();
  for await (const page of glob([...PAGES_WITH_COMMANDS, "CONTRIBUTING.md"], { cwd: ROOT })) {
    const text = await readText(page);
    allOf(text, /\bnpm run (?:-s )?([a-z][\w:-]*)/gu).forEach((name) => named.add(name));
  }
  t.true(named.size > 8);
  t.deepEqual([...named].filter((name) => scripts[name] === undefined).toSorted(), []);
});

/** The first sentence of the row has the tables that a folder owns. */
const TABLES = /^- \*\*Tables:\*\* ([^.]*)\./gmu;

test("the README of one folder names each table as its own", async (t) => {
  const owned: string[] = [];
  for await (const page of glob(["modules/*/README.md", "db/README.md"], { cwd: ROOT })) {
    const [tables = ""] = allOf(await readText(page), TABLES);
    owned.push(...allOf(tables, /`(\w+)`/gu));
  }
  const created = allOf(await readText("db/schema.sql"), /^CREATE (?:UNLOGGED )?TABLE (\w+)/gmu);
  t.deepEqual(owned.toSorted(), created.toSorted());
});

test("docs/images has every screenshot, and each takes less than 150 kB", async (t) => {
  const folder = join(ROOT, "docs/images");
  const files = await readdir(folder);
  t.deepEqual(files.toSorted(), SHOTS.map(({ name }) => `${name}.jpg`).toSorted());
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
  t.true(Math.max(...sizes) < 150_000);
});

/** Returns the names of our metrics that an API and a worker export, as they name them in their help. */
const listExported = async (t: DatabaseTest) => {
  const api = createApiMetrics({ openLists: () => 0, queueLength: () => 0 });
  const logger = pino({ level: "silent" });
  const worker = createWorkerMetrics({ db: t.context.db, clock: systemClock, logger });
  addProcessMetrics(worker.registry, () => READY, { main: t.context.db });
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

test("docs/monitoring.md and the dashboard have every metric of the programs, and they and the alerts no other", async (t) => {
  const { metrics, series } = await listExported(t);
  const rows = allOf(await readText("docs/monitoring.md"), /^\| `(impact_\w+)` +\|/gmu);
  t.deepEqual(rows.toSorted(), metrics.toSorted());
  const { panels } = await readDashboard();
  const shown = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join("\n");
  const hidden = metrics.filter((name) => !shown.includes(name));
  t.deepEqual(hidden, []);
  const rules = allOf(await readText("deploy/prometheus/rules.yml"), /^ +expr: (.+)$/gmu);
  const used = new Set(allOf([...rules, shown].join("\n"), /\b(impact_[a-z_]+)/gu));
  t.true(used.size > 15);
  const unknown = [...used].filter((name) => !series.has(name));
  t.deepEqual(unknown, []);
});

// The syntax of the rules is checked by promtool.
test("every alert has a unit test, and says what it means and which command to run, as docs/monitoring.md does", async (t) => {
  const [, ...rules] = (await readText("deploy/prometheus/rules.yml")).split("- alert: ");
  const alerts = rules.map((text) => ({ name: text.split("\n", 1)[0] ?? "", text }));
  const tests = await readText("deploy/prometheus/rules.test.yml");
  for (const { name, text } of alerts) {
    t.regex(text, /^ +summary: ./mu, name);
    t.regex(text, /^ +description: ./mu, name);
    t.regex(text, /^ +command: (?:impact|psql) ./mu, name);
    t.true(tests.includes(name), name);
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

test("the dashboard's panels have their own ids and do not overlap", async (t) => {
  const { panels } = await readDashboard();
  t.is(new Set(panels.map(({ id }) => id)).size, panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)}/${y + Math.floor(cell / w)}`),
  );
  t.is(new Set(cells).size, cells.length);
});
