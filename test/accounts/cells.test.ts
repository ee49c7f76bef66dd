import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { z } from "zod";
import { openDatabase } from "../../db/openDatabase.ts";
import { updateProfile } from "../../modules/accounts/profiles.sql.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import { reconcileUsage } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import { readCell } from "../../modules/records/cells.sql.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { startApiOf, startStandaloneApi } from "../api/startStandaloneApi.ts";
import { drainUsage } from "../billing/drainUsage.ts";
import { impactOf, readJson, runImpact } from "../cli/runImpact.ts";
import { LOGO } from "../dashboard/dashboardScene.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { copyDatabase, testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";

const test = testWithDatabase();

/** Opens the database of a new cell as a program does; null for the default one. */
const openCell = async (t: DatabaseTest, cell: string | null) => {
  const databaseUrl = await copyDatabase(t);
  const settings = { DATABASE_URL: databaseUrl, DATABASE_POOL_SIZE: 4 };
  const db = await openDatabase({ ...settings, CELL: cell ?? undefined });
  t.teardown(() => db.end());
  return { db, databaseUrl };
};

test("new keys name their cell", async (t) => {
  const { db } = await openCell(t, "eu1");
  const { apiKeyProd, apiKeyTest, post } = await startApiOf(t, { db });
  const store = await createTestStore(db);

  t.regex(apiKeyProd, /^impact_prod_eu1_[\w-]{43}$/u);
  t.regex(apiKeyTest, /^impact_test_eu1_[\w-]{43}$/u);
  t.regex(store.live["api_key"] ?? "", /^PROD-eu1-[\w-]{43}$/u);
  t.regex(store.test["api_key"] ?? "", /^TEST-eu1-[\w-]{43}$/u);
  t.is((await post("/plant/trees", { count: 1 })).status, 200);
});

test("public pages, certificates and logos name their cell", async (t) => {
  const { db } = await openCell(t, "eu1");
  const { id, apiKeyTest: key } = await createTestOrganization(db, { name: "Green Shop" });
  await db.transaction((transaction) => updateProfile(transaction, id, { logo: LOGO }));
  const { call, url } = await startStandaloneApi(t, { db });
  const planted = await call("POST", "/plant/trees", { key, body: { count: 1 } });
  const { tree_details: trees } = z
    .looseObject({ tree_details: z.tuple([z.looseObject({ id: z.string() })]) })
    .parse(planted.body);

  const { body } = await call("GET", `/certificate_url?id=${trees[0].id}`, { key });
  const certificate = String(body["certificate_url"]);
  const { number } = z
    .looseObject({ number: z.string() })
    .parse(await (await fetch(`${certificate}.json`)).json());
  const slug = await getDashboardSlug({ db, clock: systemClock }, id);
  const page = await (await fetch(`${url}/dashboard/${slug}`)).text();
  const logo = /\/media\/logos\/eu1_[0-9a-f]{64}/u.exec(page)?.[0] ?? "";

  const [, digits = ""] = /\/certificate\/eu1_(?<digits>[0-9a-f]{32})$/u.exec(certificate) ?? [];
  t.is(number, `${digits.slice(0, 4)}-${digits.slice(4, 8)}`.toUpperCase());
  t.regex(slug, /^eu1_green-shop-[a-z2-9]{8}$/u);
  t.is((await fetch(url + logo)).headers.get("Content-Type"), "image/png");
});

test("a database with accounts keeps its cell", async (t) => {
  const { db, databaseUrl: DATABASE_URL } = await openCell(t, "eu1");
  const impact = (CELL: string) => runImpact(["org", "list"], { env: { DATABASE_URL, CELL } });
  t.is((await impact("us1")).exitCode, 0, "without accounts it is renamed");
  await createTestOrganization(db);

  const other = await impact("eu1");

  t.not(other.exitCode, 0);
  t.regex(other.stderr, /CELL is eu1, but the database is that of the cell us1 .* Set CELL=us1/u);
  t.is((await impact("us1")).exitCode, 0);
  t.is((await impact("")).exitCode, 0);
  t.is(await readCell(db), "us1");
});

test("the default cell cannot be named once it has accounts", async (t) => {
  const { db, databaseUrl } = await openCell(t, null);
  await createTestOrganization(db);

  const settings = { DATABASE_URL: databaseUrl, DATABASE_POOL_SIZE: 4, CELL: "eu1" };
  await t.throwsAsync(openDatabase(settings), {
    instanceOf: StartupError,
    message: /the database is the default cell's and has accounts\. Unset CELL/u,
  });
});

test("the first accounts of `npm start` are the cell's", async (t) => {
  const { databaseUrl } = await openCell(t, null);
  const program = fileURLToPath(new URL("../../embedded/createFirstAccounts.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program, "http://127.0.0.1:1"], {
    env: { ...process.env, DATABASE_URL: databaseUrl, CELL: "eu1" },
  });
  t.regex(stdout, /^ +test key +impact_test_eu1_/mu);
});

const issuedKey = z.looseObject({ id: z.string(), key: z.string() });

test("the keys of an account work in another cell with their settings", async (t) => {
  const [old, moved] = [await openCell(t, "eu1"), await openCell(t, "eu2")];
  const before = await createTestOrganization(old.db);
  const after = await createTestOrganization(moved.db);
  const run = (databaseUrl: string, args: readonly string[], stdin = "") =>
    impactOf(t, { env: { DATABASE_URL: databaseUrl }, stdin }).ok(...args);
  const list = ["key", "list", "--json", "--org"];
  const issue = ["key", "issue", "--json", "--org", before.id, "--mode", "live", "--name", "shop"];
  const issueKey = async (...options: readonly string[]) =>
    issuedKey.parse(readJson(await run(old.databaseUrl, [...issue, ...options])));
  const issued = await issueKey("--scope", "read", "--expires", "90d");
  const revoked = await issueKey();
  await run(old.databaseUrl, ["key", "revoke", revoked.id]);
  const { stdout } = await run(old.databaseUrl, [...list, before.id]);
  t.false(stdout.includes(issued.key));

  for (const isNew of [true, false]) {
    const keys = ["import", "key", "--json", "--org", after.id, "--listed", "-"];
    const imported = z
      .array(z.looseObject({ new: z.boolean() }))
      .parse(readJson(await run(moved.databaseUrl, keys, stdout)));
    const areNew = imported.map((key) => key.new);
    t.deepEqual(areNew, [isNew, isNew, isNew]);
  }

  const { call } = await startStandaloneApi(t, { db: moved.db });
  const statusOf = async (method: string, key: string) =>
    (await call(method, "/plant/trees", { key, ...(method === "POST" && { body: { count: 1 } }) }))
      .status;
  t.is(await statusOf("POST", before.apiKeyProd), 200);
  t.is(await statusOf("GET", issued.key), 200);
  t.is(await statusOf("POST", issued.key), 403, "a read-only key stays one");
  t.is(await statusOf("GET", revoked.key), 403);
  const listed = z
    .array(z.looseObject({ name: z.string(), hint: z.string(), expires_at: z.string().nullable() }))
    .parse(readJson(await run(moved.databaseUrl, [...list, after.id])));
  const shop = listed.find(({ name }) => name === "shop");
  t.true(issued.key.startsWith(shop?.hint ?? "none"));
  t.is(typeof shop?.expires_at, "string");
});

test("an input that is no list of keys is refused", async (t) => {
  const { db, databaseUrl } = await openCell(t, "eu1");
  const { id } = await createTestOrganization(db);
  for (const stdin of ["", "{}", '[{"sha256":"1"}]']) {
    const args = ["import", "key", "--org", id, "--listed", "-"];
    const run = await runImpact(args, { env: { DATABASE_URL: databaseUrl }, stdin });
    t.is(run.exitCode, 2);
    t.regex(run.stderr, /not the output of `impact key list --json`/u);
  }
});

test("cells that share a customer at Stripe see only their own usage", async (t) => {
  const double = await startStripeDouble(t);
  const { clock, control } = double;
  control.holdClock({ second: Date.UTC(2026, 4, 15, 12) / 1000 });
  const { customerId, subscriptionId } = control.addSubscriber({ cells: [null, "eu1"] });
  const register = async (cell: string | null, count: number): Promise<BillingContext> => {
    const { db } = await openCell(t, cell);
    const billing = await double.openBilling(db);
    const stripe = { stripeCustomerId: customerId, stripeSubscriptionId: subscriptionId };
    const { id: accountId } = await createTestOrganization(db, { clock, ...stripe });
    const context = { db, clock, billing };
    await registerFor(db, accountId, { clock, count });
    control.advanceClock({ seconds: 5 });
    t.is((await drainUsage(context, { accountId, mode: "live", kind: "tree" })).kind, "done");
    return context;
  };

  const cells = [await register(null, 3), await register("eu1", 4)];
  control.advanceClock({ seconds: 3600 });

  const metered = control.usage({ customerId }).map(({ meter, value }) => [meter, value]);
  t.deepEqual(metered, [
    ["impact_tree_planted", 3],
    ["impact_tree_planted_eu1", 4],
  ]);
  for (const context of cells) {
    const { streams: compared } = await reconcileUsage(context, {}, new AbortController().signal);
    const differing = compared.flatMap(({ differences }) => differences);
    t.deepEqual(differing, []);
    t.true(compared.some(({ delivered, processorQuantity }) => delivered === processorQuantity));
  }
});
