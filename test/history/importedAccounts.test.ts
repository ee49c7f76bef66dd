import { chmod } from "node:fs/promises";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { impactOf, readJson } from "../cli/runImpact.ts";
import { createTestStore, rowsIn, startStoreApiOf } from "../stores/startStoreApi.ts";
import { createTestOrganization } from "../support/factories.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { ANN, DONATION } from "./importLine.ts";
import {
  importForStore,
  serveImport,
  setUpImport,
  summaryOf,
  writeTestFile,
} from "./importScene.ts";

const test = testWithDatabase();

const newKey = (): string => `old_${crypto.randomUUID()}`;

/** Imports the content of standard input as a key. */
const importKey = (t: DatabaseTest, stdin: string, ...options: readonly string[]) =>
  impactOf(t, { stdin })("import", "key", "--json", ...options);

test("a client keeps its key after the cut-over, and only the hash and four characters are stored", async (t) => {
  const { db } = t.context;
  const { id, call } = await serveImport(t);
  const key = newKey();
  t.is((await call("GET", "/plant/trees", { key })).status, 403);
  const importFor = (mode: string) => importKey(t, `${key}\r\n`, "--org", id, "--mode", mode);
  const run = await importFor("test");
  t.is(run.exitCode, 0, run.stderr);
  t.like(readJson(run), [{ mode: "test", key: "old_…", new: true }]);
  t.false((run.stdout + run.stderr).includes(key));

  // The key was sent before it was imported, so it counts as unknown for up to a second.
  await eventually(async () => (await call("GET", "/plant/trees", { key })).status === 200);
  const planted = await call("POST", "/plant/trees", { key, body: { count: 3 } });
  t.is(planted.status, 200);
  t.is((await call("GET", "/plant/trees", { key })).status, 200);
  t.is((await call("GET", "/dashboard_url", { key })).body["org_id"], id);

  t.like(readJson(await importFor("test")), [{ new: false }]);
  const otherMode = await importFor("live");
  t.is(otherMode.exitCode, 2);
  t.regex(otherMode.stderr, /the account has this key in test mode/u);
  const rows = await db.any(sql.type(z.strictObject({ row: z.string() }))`
    SELECT api_key::text AS row FROM api_key WHERE account_id = ${id}
    UNION ALL
    SELECT audit_entry::text FROM audit_entry WHERE account_id = ${id}
  `);
  t.true(rows.some(({ row }) => row.includes("import.key")));
  t.false(rows.some(({ row }) => row.includes(key.slice(0, 8))));
});

test("a key of another account, a revoked key and an unusable key are refused", async (t) => {
  const one = await setUpImport(t);
  const other = await setUpImport(t);
  const importFor = (id: string, stdin: string) =>
    importKey(t, stdin, "--org", id, "--mode", "live");
  const key = newKey();
  const [imported] = rowsIn({ rows: readJson(await importFor(one.id, key)) }, "rows");
  t.regex((await importFor(other.id, key)).stderr, /belongs to another account/u);
  await one.impact("key", "revoke", String(imported?.["id"]));
  t.regex((await importFor(one.id, key)).stderr, /was revoked here/u);
  for (const unusable of ["", "short", `two words ${key}`, "é".repeat(20), "x".repeat(257)]) {
    const run = await importFor(one.id, unusable);
    t.is(run.exitCode, 2);
    t.regex(run.stderr, /must be 16 to 256 visible ASCII characters/u);
  }
  t.regex(
    (await importFor(one.id, `PROD-${key}`)).stderr,
    /prefix PROD- are for stores in live mode/u,
  );
  t.regex((await importFor(one.id, `${key}\n${newKey()}`)).stderr, /one secret on one line/u);
});

test("a key file must be readable by its owner only", async (t) => {
  const { id, impact } = await setUpImport(t);
  const path = await writeTestFile(t, "key", `${newKey()}\n`);
  const importFile = ["import", "key", "--org", id, "--mode", "live", "--key-file", path];
  await chmod(path, 0o644);
  t.regex(await impact.fails(2, ...importFile), /Other users can read/u);
  await chmod(path, 0o600);
  await impact.ok(...importFile);
});

test("a store keeps its key, and an imported key of an organization has the wrong type for stores", async (t) => {
  const { id } = await setUpImport(t);
  const { get, store } = await startStoreApiOf(t);
  const [storeKey, organizationKey] = [newKey(), newKey()];
  await importKey(t, storeKey, "--org", store.domain, "--mode", "test");
  await importKey(t, organizationKey, "--org", id, "--mode", "test");
  const verify = (key: string) => get("/app/api/verify", { api_key: key, shop_name: store.domain });
  t.like((await verify(storeKey)).body, { shop_domain: store.domain, key_mode: "TEST" });
  t.like(await verify(organizationKey), { status: 401, body: { code: "WRONG_KEY_TYPE" } });
  t.like(await verify(newKey()), { status: 401, body: { code: "INVALID_KEY" } });
});

test("old addresses of a dashboard redirect to it", async (t) => {
  const { id, impact, url, ...api } = await serveImport(t);
  const other = await createTestOrganization(t.context.db);
  const slug = `Old_Slug.${id}`;
  const get = (path: string) => fetch(`${url}/dashboard/${path}`, { redirect: "manual" });
  t.is((await get(slug)).status, 404);
  await impact.ok("import", "slug", slug, "--org", id);
  const dashboard = String((await api.get("/dashboard_url")).body["dashboard_url"]);
  // The process remembers for some seconds that the slug was unknown.
  await eventually(async () => (await get(slug)).status === 301);
  for (const rest of ["", "/"]) {
    const shown = await fetch(`${url}/dashboard/${slug}${rest}`);
    t.like(shown, { status: 200, url: dashboard });
  }
  for (const known of [slug, dashboard.split("/").at(-1)]) {
    t.is((await get(`${known}/evidence`)).status, 404);
  }
  await impact.ok("import", "slug", slug, "--org", id);
  const current = dashboard.split("/").at(-1) ?? "";
  for (const taken of [slug, current]) {
    const refused = await impact.fails(2, "import", "slug", taken, "--org", other.id);
    t.regex(refused, /leads to another dashboard/u);
  }
  t.is((await get("a%00b")).status, 404);
  await impact.fails(2, "import", "slug", "a/b", "--org", id);
});

const RECORDS = [
  {
    kind: "tree",
    id: "rec/1",
    count: 4,
    refunded_count: 1,
    created_at: "2024-05-01T10:00:00.000Z",
    order_id: "#1001",
    notes: "loyalty",
    unit_price_cents: 45,
    idempotency_key: "write-1",
    ...ANN,
  },
  {
    kind: "bottle",
    id: "rec/1",
    count: 10,
    created_at: "2024-05-02T10:00:00.000Z",
    unit_price_cents: 9,
    ...ANN,
  },
  { ...DONATION, ...ANN, amount_cents: 250 },
];

test("a store's imported records are in its lists, statistics, evidence and reversals", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const run = await importForStore(t, store.domain, RECORDS);
  t.like(summaryOf(run), { exitCode: 0, new: 3 }, run.stderr);
  t.like(summaryOf(await importForStore(t, store.id, RECORDS)), { new: 0, known: 3 });

  const trees = await get("/app/api/plant?customer=ann@example.com&order_id=1001", store.live);
  t.deepEqual(rowsIn(trees.body, "trees"), [
    {
      id: "rec/1",
      count: 4,
      refunded_count: 1,
      created_at: "2024-05-01T10:00:00.000000Z",
      order_id: "#1001",
      notes: "loyalty",
      ...ANN,
    },
  ]);
  const stats = await get("/app/api/impact/stats?customer_id=7", store.live);
  t.like(stats.body, { trees: 3, plastic_bottles: 10, donations: 2.5 });
  t.deepEqual((await get("/app/api/plant", store.test)).body["trees"], []);
  const evidence = await get("/app/api/evidence?tree_id=rec%2F1", store.live);
  t.like(evidence.body, { tree_id: "rec/1", created_at: "2024-05-01T10:00:00.000000Z" });
  t.like((await get("/app/api/evidence", store.live)).body, { tree_id: "rec/1" });

  const balance = async () => (await get("/app/api/balance", store.live)).body;
  t.like(await balance(), { balance_cents: 1000 });
  const reversal = await post("/app/api/refund", store.live, { type: "tree", quantity: 2 });
  t.is(reversal.status, 200);
  t.like(await balance(), { balance_cents: 1090 });
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 1 });

  // The reversal came after the import, so the history no longer agrees.
  const verified = await importForStore(t, store.domain, RECORDS, "--verify");
  t.is(verified.exitCode, 1);
  t.regex(verified.stderr, /line 1: conflict: .* refunded_count \(it is higher here\)$/mu);
});

test("a store that repeats a key from before the cut-over pays nothing and records nothing", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  await importForStore(t, store.domain, RECORDS);
  const headers = { ...store.live, "Idempotency-Key": "write-1" };
  const replay = await post("/app/api/plant", headers, { trees: 4, customer_name: "Ann Lee" });
  const body = { trees_planted: 4, customer_name: "Ann Lee" };
  t.like(replay, { status: 200, replayed: "true", body });
  t.like((await get("/app/api/balance", store.live)).body, { balance_cents: 1000 });
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 3 });
  // Another operation and the other mode have keys of their own.
  const bottles = await post("/app/api/plastic", headers, { bottles: 1 });
  t.is(bottles.headers.get("Idempotent-Replayed"), null);
  const inTest = await post("/app/api/plant", { ...headers, ...store.test }, { trees: 4 });
  t.is(inTest.headers.get("Idempotent-Replayed"), null);
});

test("a store's record whose key is in use is a conflict, in a dry run, too", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const headers = { ...store.live, "Idempotency-Key": "here" };
  t.is((await post("/app/api/plant", headers, { trees: 4 })).status, 200);
  const [tree] = RECORDS;
  const lineWith = (id: string, key: string) => ({ ...tree, id, idempotency_key: key });
  const first = lineWith("a", "there");
  const lines = [first, lineWith("b", "there"), lineWith("c", "here"), lineWith("d", "other")];
  const expected = { new: 2, known: 0, conflict: 2, bad: 0 };

  const dry = await importForStore(t, store.domain, lines, "--dry-run");
  const run = await importForStore(t, store.domain, lines);
  const later = await importForStore(t, store.domain, [first, lineWith("e", "there")]);

  t.like(summaryOf(dry), expected, dry.stderr);
  t.like(summaryOf(run), expected, run.stderr);
  t.regex(run.stderr, /line 2: conflict: .* with another id/mu);
  t.regex(run.stderr, /line 3: conflict: .* with another id/mu);
  t.like(summaryOf(later), { new: 0, known: 1, conflict: 1 }, later.stderr);
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 4 + 3 + 3 });
});

test("a live record of a store needs its price, and others must not have one", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db);
  const [tree] = RECORDS;
  const unpriced = { ...tree, unit_price_cents: null };
  const run = await importForStore(t, store.domain, [unpriced]);
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /unit_price_cents: required, because a reversal returns it/u);
  t.is((await importForStore(t, store.domain, [unpriced], "--mode", "test")).exitCode, 0);
  const priced = await importForStore(t, store.domain, [{ ...tree, id: "2" }], "--mode", "test");
  t.regex(priced.stderr, /unit_price_cents: must be 0 in test mode/u);
});
