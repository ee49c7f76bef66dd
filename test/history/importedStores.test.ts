import type { ExecutionContext } from "ava";
import { runImpact } from "../cli/runImpact.ts";
import { createTestStore, rowsIn, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { linesOf, summaryOf, writeTestFile } from "./importScene.ts";

const test = testWithDatabase();

const ANN = { customer_name: "Ann Lee", customer_email: "ann@example.com", customer_id: "7" };

const HISTORY = [
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
  {
    kind: "donation",
    id: "gift-1",
    amount_cents: 250,
    nonprofit_id: "n",
    charity_name: "C",
    created_at: "2024-05-03T10:00:00.000Z",
    ...ANN,
  },
];

const importFor = (
  { context: { databaseUrl } }: ExecutionContext<DatabaseContext>,
  store: string,
  lines: readonly object[],
  ...options: readonly string[]
) =>
  runImpact(["import", "history", "-", "--store", store, "--json", ...options], {
    env: { DATABASE_URL: databaseUrl },
    stdin: linesOf(...lines.map((line) => ({ ...line }))),
  });

test("a store's imported records are in its lists, statistics, evidence and reversals", async (t) => {
  const { db, databaseUrl } = t.context;
  const { get, post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 1000 });
  const run = await importFor(t, store.domain, HISTORY);
  t.is(run.exitCode, 0, run.stderr);
  t.like(summaryOf(run), { new: 3 });
  t.like(summaryOf(await importFor(t, store.id, HISTORY)), { new: 0, known: 3 });

  const trees = await get("/app/api/plant?customer=ann@example.com&order_id=1001", store.live);
  t.deepEqual(rowsIn(trees.body, "trees"), [
    {
      id: "rec/1",
      count: 4,
      refunded_count: 1,
      created_at: "2024-05-01T10:00:00.000Z",
      order_id: "#1001",
      notes: "loyalty",
      ...ANN,
    },
  ]);
  const stats = await get("/app/api/impact/stats?customer_id=7", store.live);
  t.like(stats.body, { trees: 3, plastic_bottles: 10, donations: 2.5 });
  t.deepEqual((await get("/app/api/plant", store.test)).body["trees"], []);
  const evidence = await get(
    `/app/api/evidence?tree_id=${encodeURIComponent("rec/1")}`,
    store.live,
  );
  t.like(evidence.body, { tree_id: "rec/1", created_at: "2024-05-01T10:00:00.000Z" });
  t.like((await get("/app/api/evidence", store.live)).body, { tree_id: "rec/1" });

  const balance = async () => (await get("/app/api/balance", store.live)).body;
  t.like(await balance(), { balance_cents: 1000 });
  const reversal = await post("/app/api/refund", store.live, { type: "tree", quantity: 2 });
  t.is(reversal.status, 200);
  t.like(await balance(), { balance_cents: 1090 });
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 1 });

  // The reversal came after the import, so the history no longer agrees.
  const file = await writeTestFile(t, "store.ndjson", linesOf(...HISTORY));
  const verified = await runImpact(["verify-import", file, "--store", store.domain, "--json"], {
    env: { DATABASE_URL: databaseUrl },
  });
  t.is(verified.exitCode, 1);
  t.regex(verified.stderr, /differ in 1 sums, and 0 totals/u);
});

test("a store that repeats a key from before the cut-over pays nothing and records nothing", async (t) => {
  const { db } = t.context;
  const { get, post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 1000 });
  await importFor(t, store.domain, HISTORY);
  const headers = { ...store.live, "Idempotency-Key": "write-1" };
  const replay = await post("/app/api/plant", headers, { trees: 4, customer_name: "Ann Lee" });
  t.is(replay.status, 200);
  t.is(replay.headers.get("Idempotent-Replayed"), "true");
  t.like(replay.body, { trees_planted: 4, customer_name: "Ann Lee" });
  t.like((await get("/app/api/balance", store.live)).body, { balance_cents: 1000 });
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 3 });
  // Another operation and the other mode have keys of their own.
  const bottles = await post("/app/api/plastic", headers, { bottles: 1 });
  t.is(bottles.headers.get("Idempotent-Replayed"), null);
  const inTest = await post("/app/api/plant", { ...headers, ...store.test }, { trees: 4 });
  t.is(inTest.headers.get("Idempotent-Replayed"), null);
});

test("a live record of a store needs its price, and others must not have one", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db);
  const [tree] = HISTORY;
  const unpriced = { ...tree, unit_price_cents: null };
  const run = await importFor(t, store.domain, [unpriced]);
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /unit_price_cents: required, because a reversal returns it/u);
  t.is((await importFor(t, store.domain, [unpriced], "--mode", "test")).exitCode, 0);
  const priced = await importFor(t, store.domain, [{ ...tree, id: "2" }], "--mode", "test");
  t.regex(priced.stderr, /unit_price_cents: must be 0 in test mode/u);
});
