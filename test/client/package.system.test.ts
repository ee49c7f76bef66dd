import { execFile, spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { z } from "zod";
import { createImpactClient } from "../../clients/typescript/src/index.ts";
import { sql } from "../../db/sql.ts";
import { startStoreApiOf } from "../stores/startStoreApi.ts";
import { readStoreState } from "../stores/storeState.ts";
import { startServer } from "../../runtime/server/startServer.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import { openBrowser } from "../dashboard/browser.ts";
import { testWithDatabase } from "../support/database.ts";
import { setLimits } from "../support/factories.ts";

const test = testWithDatabase();

const run = promisify(execFile);
const pathOf = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const PACKAGE = pathOf("clients/typescript");
const NPM_OPTIONS = ["--offline", "--no-audit", "--no-fund", "--ignore-scripts"];

/** A project of a stranger: nothing but the installed package, the examples and Node's types. */
let project: string;

const installInEmptyProject = async (): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), "client-"));
  await run(process.execPath, [pathOf("node_modules/typescript/bin/tsc"), "--project", PACKAGE]);
  const packed = await run(
    "npm",
    ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder],
    {
      cwd: PACKAGE,
    },
  );
  const empty = join(folder, "project");
  await mkdir(empty);
  await writeFile(join(empty, "package.json"), '{ "type": "module", "private": true }');
  await run("npm", ["install", ...NPM_OPTIONS, join(folder, packed.stdout.trim())], { cwd: empty });
  await cp(join(PACKAGE, "examples"), empty, { recursive: true });
  return empty;
};

test.before(async () => {
  project = await installInEmptyProject();
});

const startExample = (
  file: string,
  environment: Readonly<Record<string, string>>,
  ...args: readonly string[]
): ChildProcessWithoutNullStreams =>
  spawn(process.execPath, [file, ...args], {
    cwd: project,
    env: { ...process.env, NODE_NO_WARNINGS: "1", ...environment },
  });

/** Runs an example to its end, and returns what it printed. */
const runExample = async (...given: Parameters<typeof startExample>): Promise<string> => {
  const child = startExample(...given);
  const [output, errors] = await Promise.all([
    child.stdout.toArray(),
    child.stderr.toArray(),
    once(child, "close"),
  ]);
  return `${output.join("")}${errors.join("")}`;
};

const startService = async (
  t: Parameters<typeof startApiOf>[0],
): Promise<{
  readonly url: string;
  readonly accountId: string;
  readonly environment: Readonly<Record<string, string>>;
}> => {
  const { url, id: accountId, apiKeyTest } = await startApiOf(t);
  return { url, accountId, environment: { IMPACT_URL: url, IMPACT_API_KEY: apiKeyTest } };
};

test("the package has no dependencies, and contains what it promises", async (t) => {
  t.deepEqual(await readdir(join(project, "node_modules")), [
    ".package-lock.json",
    "impact-tracking-client",
  ]);
  const files = await readdir(join(project, "node_modules/impact-tracking-client"));
  t.deepEqual(files.toSorted(), [
    "LICENSE",
    "README.md",
    "dist",
    "examples",
    "package.json",
    "src",
  ]);
  const licence = await readFile(join(PACKAGE, "LICENSE"), "utf8");
  t.is(licence, await readFile(pathOf("LICENSE"), "utf8"));
});

for (const [version, compiler, configs] of [
  ["5.9", "clients/typescript/node_modules/typescript/bin/tsc", ["node.json"]],
  ["7", "node_modules/typescript/bin/tsc", ["node.json", "browsers.json"]],
] as const) {
  test(`the examples and the types compile strictly with TypeScript ${version}`, async (t) => {
    const options = {
      target: "es2022",
      module: "nodenext",
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
      typeRoots: [pathOf("node_modules/@types")],
    };
    const forNode = {
      compilerOptions: { ...options, lib: ["es2022"], types: ["node"] },
      include: ["*.ts"],
    };
    const forBrowsers = {
      compilerOptions: { ...options, lib: ["es2022", "dom", "dom.iterable"], types: [] },
      files: ["browser.mts"],
    };
    const folder = join(project, `typescript-${version}`);
    await mkdir(folder);
    await cp(join(PACKAGE, "examples"), folder, { recursive: true });
    await writeFile(
      join(folder, "browser.mts"),
      'import { createImpactClient } from "impact-tracking-client";\nexport const client = createImpactClient({ baseUrl: "" });\n',
    );
    await writeFile(join(folder, "node.json"), JSON.stringify(forNode));
    await writeFile(join(folder, "browsers.json"), JSON.stringify(forBrowsers));

    for (const config of configs) {
      const result = await run(process.execPath, [
        pathOf(compiler),
        "--project",
        join(folder, config),
      ]).catch((error: unknown) => error);
      t.like(result, { stdout: "" }, config);
    }
  });
}

test("the checkout plants an order once, however often it runs", async (t) => {
  const { environment } = await startService(t);

  const first = await runExample("checkout.ts", environment);
  const second = await runExample("checkout.ts", environment);

  t.regex(first, /^Order 1003: planted as [0-9a-f-]{36}\n$/u);
  t.is(second, first);
});

test("the checkout keeps an order for later if its key is not valid", async (t) => {
  const { environment } = await startService(t);

  const output = await runExample("checkout.ts", { ...environment, IMPACT_API_KEY: "unknown" });

  t.is(output, "Order 1003: not known to be planted: invalid API key\n");
});

test("the checkout keeps an order for later if the limit of the day is reached", async (t) => {
  const { url, accountId, environment } = await startService(t);
  await setLimits(t.context.db, accountId, { countPerDay: 4 }, "test");
  const impact = createImpactClient({ baseUrl: url, apiKey: environment["IMPACT_API_KEY"] ?? "" });
  await impact.registerTrees({ count: 2 });

  const output = await runExample("checkout.ts", environment);

  t.regex(output, /^Order 1003: not known to be planted: daily limit reached: /u);
});

test("the nightly export writes a day's trees", async (t) => {
  const { environment, accountId } = await startService(t);
  await runExample("checkout.ts", environment);
  const day = await t.context.db.oneFirst(sql.type(z.strictObject({ day: z.string() }))`
    SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day
    FROM registration
    WHERE account_id = ${accountId}
  `);

  const output = await runExample("nightlyExport.ts", environment, day);

  t.is(output, `Wrote trees-${day}.ndjson: 3 trees remain registered\n`);
  const lines = await readFile(join(project, `trees-${day}.ndjson`), "utf8");
  t.true(lines.includes("spring-sale"));
});

test("the webhook receiver accepts what its secret has signed, once, and refuses the rest", async (t) => {
  const secret = randomBytes(32);
  const child = startExample("webhookReceiver.ts", {
    IMPACT_WEBHOOK_SECRET: `whsec_${secret.toString("base64")}`,
    PORT: "0",
  });
  t.teardown(() => child.kill());
  const lines = child.stdout.setEncoding("utf8")[Symbol.asyncIterator]();
  const { value: greeting } = await lines.next();
  const port = /"port":(?<port>\d+)/u.exec(String(greeting))?.groups?.["port"] ?? "";
  const body = '{"type":"ping","timestamp":"2026-06-01T12:00:00.000Z","data":{"n":1}}';
  const deliver = async (signed: string): Promise<number> => {
    const timestamp = String(Math.floor(Date.now() / 1000));
    const signature = createHmac("sha256", secret)
      .update(`msg_1.${timestamp}.${signed}`)
      .digest("base64");
    const { status } = await fetch(`http://127.0.0.1:${port}`, {
      method: "POST",
      headers: {
        "webhook-id": "msg_1",
        "webhook-timestamp": timestamp,
        "webhook-signature": `v1,${signature}`,
      },
      body,
    });
    return status;
  };

  t.is(await deliver(body), 204);
  t.is(await deliver(body), 204);
  t.is(await deliver(`${body} `), 400);
  child.kill();
  t.deepEqual(await lines.next(), { done: false, value: 'ping: {"n":1}\n' });
  t.true((await lines.next()).done);
});

test("20 deliveries of one order webhook at the same time, and a later one, are one debit", async (t) => {
  const { db } = t.context;
  const { url, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const child = startExample("orderWebhook.ts", {
    IMPACT_STORE_URL: url,
    IMPACT_STORE_KEY: store.live["api_key"] ?? "",
    SHOP: store.domain,
    PLATFORM_SECRET: "platform",
    PORT: "0",
  });
  t.teardown(() => child.kill());
  const lines = child.stdout.setEncoding("utf8")[Symbol.asyncIterator]();
  const { value: greeting } = await lines.next();
  const port = /"port":(?<port>\d+)/u.exec(String(greeting))?.groups?.["port"] ?? "";
  const deliver = async (id: number, secret = "platform"): Promise<number> => {
    const body = JSON.stringify({ id });
    const { status } = await fetch(`http://127.0.0.1:${port}`, {
      method: "POST",
      headers: { "x-hmac-sha256": createHmac("sha256", secret).update(body).digest("base64") },
      body,
    });
    return status;
  };
  const before = await readStoreState(db, store.id);

  const statuses = await Promise.all(Array.from({ length: 20 }, () => deliver(1001)));
  t.deepEqual(new Set([...statuses, await deliver(1001)]), new Set([204]));
  t.is(await deliver(1002, "forged"), 401);
  const after = await readStoreState(db, store.id);
  t.is(after.entries, before.entries + 1);

  // Another order is another debit.
  t.is(await deliver(1002), 204);
  t.is((await readStoreState(db, store.id)).entries, before.entries + 2);
});

test("a page in Chromium reads a dashboard and verifies a webhook, from another site and without a key", async (t) => {
  const { url, environment } = await startService(t);
  const impact = createImpactClient({
    baseUrl: url,
    apiKey: environment["IMPACT_API_KEY"] ?? "",
  });
  const { dashboard_url: dashboardUrl } = await impact.readDashboardUrl();
  const slug = new URL(dashboardUrl).pathname.split("/").at(-1);
  const dist = join(project, "node_modules/impact-tracking-client/dist");
  const files = await readdir(dist, { recursive: true });
  const site = await startServer(
    async (request, response) => {
      const file = files.find((name) => request.url === `/${name}`);
      response.setHeader("Content-Type", file === undefined ? "text/html" : "text/javascript");
      response.end(file === undefined ? "<title>Shop</title>" : await readFile(join(dist, file)));
    },
    { host: "127.0.0.1", port: 0, setting: "PORT" },
  );
  t.teardown(() => site.close(1000));
  const browser = await openBrowser();
  t.teardown(() => browser.close());
  const tab = await browser.newPage();
  await tab.goto(site.url);

  const name: unknown = await tab.evaluate(
    `import("/index.js").then(async ({ createImpactClient, verifyWebhook }) => {
      const impact = createImpactClient({ baseUrl: ${JSON.stringify(url)} });
      const { name } = await impact.readDashboard(${JSON.stringify(slug)});
      const refused = await verifyWebhook({
        secret: "whsec_${"A".repeat(32)}",
        headers: { "webhook-id": "m", "webhook-timestamp": String(Math.floor(Date.now() / 1000)), "webhook-signature": "v1,AAAA" },
        body: "{}",
      }).catch((error) => error.name);
      return name + ", " + refused;
    })`,
  );

  t.is(name, "Test Organization, WebhookVerificationError");
});
