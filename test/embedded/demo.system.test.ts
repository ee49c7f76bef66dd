import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { ExecutionContext } from "ava";
import test from "ava";
import { z } from "zod";
import { openPool } from "../../db/pools/pool.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { RunFile } from "../../runtime/runFile.ts";
import { issueKey } from "../../modules/accounts/manageKeys.ts";
import { auditAccessibility, openBrowser, visit } from "../dashboard/browser.ts";
import { makeDataDir, runStart, waitUntilReady } from "./runStart.ts";
import type { StartedProcess } from "./runStart.ts";

const DEMO = ["--demo"];
const run = promisify(execFile);

const find = ({ output }: StartedProcess, pattern: RegExp): string => {
  const found = pattern.exec(output())?.groups?.["found"];
  if (found === undefined) {
    throw new Error(`${pattern} is not in the output:\n${output()}`);
  }
  return found;
};

const issueLiveKey = async (
  { databaseUrl }: RunFile,
  id: string,
  type: "organization" | "store",
): Promise<string> => {
  const db = await openPool(databaseUrl, 1);
  try {
    const deps = { db, clock: systemClock, actor: SERVICE };
    return (await issueKey(deps, { id, type }, "live")).key;
  } finally {
    await db.end();
  }
};

const anything = z.looseObject({});
const readJson = async (url: string, headers: Record<string, string> = {}) => {
  const response = await fetch(url, { headers });
  return anything.parse(await response.json());
};

/** Opens the demo's own pages in a browser, and follows each link. @returns the links and the commands of the first one */
const openTour = async (t: ExecutionContext, url: string) => {
  const browser = await openBrowser();
  t.teardown(() => browser.close());
  const urls = new Map<string, string>();
  const desktop = { width: 1280, height: 900, colorScheme: "light" } as const;
  const phone = { width: 360, height: 740, colorScheme: "dark" } as const;
  let commands: readonly string[] = [];
  for (const view of [desktop, phone]) {
    const { page, problems } = await visit(t, browser, `${url}/`, view);
    commands = await page.locator("pre").allTextContents();
    for (const link of await page.getByRole("link").all()) {
      const path = (await link.getAttribute("href")) ?? "";
      urls.set((await link.textContent()) ?? "", new URL(path, url).href);
    }
    await page.getByRole("link", { name: "A sample shop" }).click();
    await page.frameLocator("iframe").getByText("trees registered").waitFor();
    await page.waitForLoadState("networkidle");
    t.is(await page.evaluate('document.querySelector("img").naturalHeight'), 26);
    for (const shown of [await visit(t, browser, `${url}/`, view), { page, problems }]) {
      t.deepEqual(await auditAccessibility(shown.page), []);
      t.deepEqual(shown.problems, []);
      t.is(await shown.page.evaluate("document.documentElement.scrollWidth"), view.width);
    }
    const order = await page.getByText("the certificate of the order").getAttribute("href");
    urls.set("order", new URL(order ?? "", url).href);
  }
  for (const [name, linked] of urls) {
    t.is((await fetch(linked, { headers: { accept: "text/html" } })).status, 200, name);
  }
  return { urls, commands };
};

const stats = z.object({ stats: z.array(z.object({ registered: z.int() })) });
const evidence = z.object({ timeline: z.array(z.object({ status: z.string() })) });
const trees = z.object({ tree_details: z.array(z.object({ id: z.string() })) });

test("a demo beside a first database has something to show everywhere, is added once, and bills nobody", async (t) => {
  const dataDir = await makeDataDir(t);
  const beside = runStart(t, dataDir);
  await waitUntilReady(beside, dataDir);
  beside.child.kill("SIGTERM");
  t.is(await beside.exitCode, 0);

  const demoDir = join(dataDir, "demo");
  // What a demo must not use.
  const settings = {
    STRIPE_SECRET_KEY: "sk_test_1",
    PLANTING_PARTNER: "manual",
    DATABASE_URL: "postgres://nobody@127.0.0.1:1/nothing",
  };
  const first = runStart(t, dataDir, settings, DEMO);
  const runFile = await waitUntilReady(first, demoDir);
  const { apiUrl, storeUrl } = runFile;
  t.notRegex(first.output(), /impact_prod_|PROD-/u, "the output may be a log");
  const organization = find(first, /Organization (?<found>[0-9a-f-]{36})/u);
  t.is(find(first, /^open in a browser +(?<found>\S+)$/mu), `${apiUrl}/`);
  const { urls, commands } = await openTour(t, apiUrl);
  const page = urls.get("The public page") ?? "";
  t.like(await readJson(`${page}.json`), { name: "North Sea Outfitters" });
  const html = await (await fetch(page)).text();
  for (const section of ["months", "projects", "evidence", "method"]) {
    t.regex(html, new RegExp(`id="${section}"`, "u"));
  }

  const Authorization = await issueLiveKey(runFile, organization, "organization");
  const readOwn = (path: string) => readJson(apiUrl + path, { Authorization });
  for (const kind of ["tree", "bottle", "donation"]) {
    const months = stats.parse(await readOwn(`/stats?kind=${kind}&interval=month`)).stats;
    t.is(months.length, 12);
    // The current month may be younger than its first order.
    t.true(
      months.slice(0, -1).every(({ registered }) => registered > 0),
      kind,
    );
  }
  for (const path of ["/plant/trees", "/charities/donations"]) {
    const list = JSON.stringify(await readOwn(path));
    t.true(list.includes('"refunded":true'), path);
  }
  const { tree_details: listed } = trees.parse(await readOwn("/plant/trees"));
  const completed = new Set<number>();
  for (const { id } of listed.filter((_, index) => index % 20 === 0)) {
    const { timeline } = evidence.parse(await readOwn(`/evidence/tree/${id}`));
    completed.add(timeline.filter(({ status }) => status === "completed").length);
  }
  t.true(completed.size >= 3, "trees are at several stages");
  const events = await readOwn("/events?types=registration.refunded");
  t.regex(JSON.stringify(events), /order returned/u);

  const names = {
    verified: "A certificate",
    recent: "trees that wait to be planted",
    refunded: "refunded trees",
    donation: "a donation",
    order: "order",
  };
  const states = await Promise.all(
    Object.entries(names).map(async ([label, name]) => [
      label,
      (await readJson(`${urls.get(name)}.json`))["state"],
    ]),
  );
  t.like(Object.fromEntries(states), {
    verified: "planted_and_verified",
    recent: "registered",
    refunded: "refunded",
    donation: "registered",
    order: "registered",
  });

  const store = find(first, /Store shop\.northsea\.example \((?<found>[0-9a-f-]{36})\)/u);
  const key = await issueLiveKey(runFile, store, "store");
  const impact = await readJson(`${storeUrl}/app/api/impact/stats`, {
    api_key: key,
    shop_name: "shop.northsea.example",
  });
  t.true(Number(impact["trees"]) > 100 && Number(impact["donations"]) > 10);

  const outputs: string[] = [];
  for (const command of commands.filter((given) => !given.endsWith(" doctor"))) {
    outputs.push((await run("sh", ["-c", command])).stdout);
  }
  t.regex(
    outputs.join("\n"),
    /"count":3[^]*"trees_planted":2[^]*North Sea[^]*order-1200[^]*REPORTED[^]*impact_prod_/u,
  );

  first.child.kill("SIGTERM");
  t.is(await first.exitCode, 0);
  const second = runStart(t, dataDir, {}, DEMO);
  const again = await waitUntilReady(second, demoDir);
  const tour = await (await fetch(again.apiUrl, { headers: { accept: "text/html" } })).text();
  t.true(tour.includes(new URL(page).pathname));
  const kept = await readJson(`${again.apiUrl}/plant/trees`, { Authorization });
  t.is(trees.parse(kept).tree_details.length, listed.length);
  second.child.kill("SIGTERM");
  t.is(await second.exitCode, 0);

  // As if the first start had been killed before it was complete.
  await rm(join(demoDir, "demo.json"));
  const incomplete = runStart(t, dataDir, {}, DEMO);
  t.is(await incomplete.exitCode, 1);
  t.regex(incomplete.output(), new RegExp(`was interrupted.* Delete the folder ${demoDir}`, "u"));
});

test("an unknown argument of npm start is an error", async (t) => {
  const refused = runStart(t, await makeDataDir(t), {}, ["--dmeo"]);
  t.is(await refused.exitCode, 1);
  t.regex(refused.output(), /Unknown option '--dmeo'[^]*npm start -- --demo/u);
  const help = runStart(t, await makeDataDir(t), {}, ["--help"]);
  t.is(await help.exitCode, 0);
  t.regex(help.output(), /npm start -- --demo/u);
});
