import { z } from "zod";
import { impactOf, readJson } from "../cli/runImpact.ts";
import type { StoreApi, TestStore } from "../stores/startStoreApi.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { allocatedRecord } from "./evidenceLines.ts";
import { ANN, lineOf } from "./importLine.ts";
import type { Fields } from "./importLine.ts";
import { importForStore, linesOf, readPages, summaryOf, writeTestFile } from "./importScene.ts";

const test = testWithDatabase();

const TREE_CENTS = 45;
const BOTTLE_CENTS = 9;
/** The longest note and reason. */
const LONG = "é".repeat(10_000);

const ANN_OF_ORDER = { ...ANN, order_id: "#1001" };

const LISTS = [
  { kind: "tree", path: "/app/api/plant", rows: "trees", price: TREE_CENTS },
  { kind: "bottle", path: "/app/api/plastic", rows: "plastics", price: BOTTLE_CENTS },
  { kind: "donation", path: "/app/api/charity/donations", rows: "donations", price: undefined },
] as const;

/** Returns a deployment: its commands and its API. */
const openDeployment = async (t: DatabaseTest, databaseUrl: string) => {
  const db = await openTestPool(t, databaseUrl, 4);
  return {
    api: await startStoreApi(t, { db }),
    run: impactOf(t, { env: { DATABASE_URL: databaseUrl } }).ok,
  };
};

const readSums = async ({ api }: { readonly api: StoreApi }, headers: TestStore["live"]) => ({
  balanceCents: (await api.get("/app/api/balance", headers)).body["balance_cents"],
  stats: (await api.get("/app/api/impact/stats", headers)).body,
});

/** Creates a store that has written everything that a store can write. */
const setUpOld = async (t: DatabaseTest) => {
  const { db, databaseUrl } = t.context;
  const old = await openDeployment(t, databaseUrl);
  const prices = { treePriceCents: TREE_CENTS, bottlePriceCents: BOTTLE_CENTS };
  const store = await createTestStore(db, prices);
  const { domain } = store;
  const write = async (path: string, body: Fields) => {
    const { status, text } = await old.api.post(path, store.live, body);
    t.is(status, 200, text);
  };
  const reference = `--reference=${"x".repeat(200)}`;
  await old.run("store", "topup", domain, "--amount=100", reference, "--note", LONG);
  await write("/app/api/plant", { trees: 3, ...ANN_OF_ORDER, notes: "loyalty" });
  await write("/app/api/plant", { trees: 1 });
  await write("/app/api/plant", { trees: 4 });
  await write("/app/api/plastic", { bottles: 5, ...ANN_OF_ORDER });
  const charity_id = "53-0196605";
  await write("/app/api/charity/donate", { charity_id, amount: 12.34, ...ANN_OF_ORDER });
  await write("/app/api/charity/donate", { charity_id, amount: 0.29 });
  await write("/app/api/refund", { type: "tree", quantity: 2, reason: LONG });
  await write("/app/api/refund", { type: "donation", quantity: 1, reason: LONG });
  await old.run("store", "adjust", domain, "--amount=-1", "--reason", "x".repeat(500));
  return { old, store };
};

test("a store moves to another deployment with its records and its opening balance", async (t) => {
  const { old, store } = await setUpOld(t);
  const { domain } = store;
  const moved = await openDeployment(t, await copyDatabase(t));
  const prices = ["--tree-price=0.45", "--bottle-price=0.09"];
  const created = z
    .looseObject({ api_key_prod: z.string() })
    .parse(readJson(await moved.run("store", "create", "--domain", domain, ...prices, "--json")));
  const headers = { api_key: created.api_key_prod, shop_name: domain };
  const records: Fields[] = [];
  for (const list of LISTS) {
    for (const record of await readPages(old.api, store.live, list)) {
      records.push({ ...record, kind: list.kind, unit_price_cents: list.price });
    }
  }
  const file = await writeTestFile(t, "store.ndjson", linesOf(...records));

  await moved.run("import", "history", file, "--org", domain, "--dry-run");
  await moved.run("import", "history", file, "--org", domain);
  await moved.run("import", "history", "--verify", file, "--org", domain);

  for (const list of LISTS) {
    const before = await readPages(old.api, store.live, list);
    t.deepEqual(await readPages(moved.api, headers, list), before, list.kind);
  }
  const sums = await readSums(old, store.live);
  const amount = `--amount=${Number(sums.balanceCents) / 100}`;
  for (const _ of ["once", "repeated"]) {
    await moved.run("store", "topup", domain, amount, "--reference=opening-balance");
  }
  t.deepEqual(await readSums(moved, headers), sums);
});

for (const format of ["csv", "ndjson"]) {
  test(`an exported list of a store's donations can be imported as ${format}`, async (t) => {
    const { old, store } = await setUpOld(t);
    const other = await createTestStore(t.context.db);
    const { domain } = store;
    const options = ["--org", domain, "--format", format];
    const { stdout: exported } = await old.run("export", "donations", ...options);
    const file = await writeTestFile(t, `donations.${format}`, exported);

    const from = [file, "--org", other.domain, "--kind", "donation"];
    await old.run("import", "history", ...from);
    await old.run("import", "history", "--verify", ...from);

    const [, , donations] = LISTS;
    const before = await readPages(old.api, store.live, donations);
    t.deepEqual(await readPages(old.api, other.live, donations), before);
  });
}

test("the evidence of a store's trees can be imported as the store interface shows it", async (t) => {
  const { db, databaseUrl } = t.context;
  const deployment = await openDeployment(t, databaseUrl);
  const [ordered, waiting] = ["ordered/1", "waiting/1"];
  const trees = [ordered, waiting].map((id) =>
    lineOf({ id, count: 4, unit_price_cents: TREE_CENTS }),
  );
  /** Imports lines into a new store and returns the evidence that it shows. */
  const importAndShow = async (evidence: readonly Fields[]): Promise<readonly Fields[]> => {
    const { domain, live } = await createTestStore(db);
    const file = await writeTestFile(t, "trees.ndjson", linesOf(...trees, ...evidence));
    const from = ["--org", domain, "--source", "old.example"];
    await deployment.run("import", "history", file, ...from);
    await deployment.run("import", "history", "--verify", file, ...from);
    const shown = [ordered, waiting].map(async (id) => {
      const path = `/app/api/evidence?tree_id=${encodeURIComponent(id)}`;
      return (await deployment.api.get(path, live)).body;
    });
    return Promise.all(shown);
  };

  const shown = await importAndShow([allocatedRecord(ordered, 9001)]);
  t.like(shown[0], { status: "allocated", region: "Kwale", evidence_count: 3 });
  t.like(shown[1], { region: "" });
  const moved = await importAndShow(
    shown.map((evidence) => ({ ...evidence, kind: "evidence", country: "Kenya" })),
  );
  t.deepEqual(moved, shown);
});

test("a key that a store's record was imported without is a conflict, and is not stored", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db);
  const tree = { id: "a", count: 4, unit_price_cents: 10 };
  const keyed = { ...tree, idempotency_key: "k1" };
  const importLine = (line: Fields, ...options: readonly string[]) =>
    importForStore(t, store.domain, [lineOf(line)], ...options);

  t.like(summaryOf(await importLine(tree)), { new: 1 });
  for (const line of [keyed, { ...keyed, refunded_count: 1 }]) {
    for (const options of [["--dry-run"], []]) {
      const run = await importLine(line, ...options);
      t.like(summaryOf(run), { known: 0, refunded: 0, conflict: 1 });
      t.regex(run.stderr, /is there with another idempotency_key(?:, refunded_count)?$/mu);
    }
  }
  t.like(summaryOf(await importLine(tree)), { known: 1 });

  const other = { ...tree, id: "b", idempotency_key: "k2" };
  t.like(summaryOf(await importLine(other)), { new: 1 });
  t.like(summaryOf(await importLine({ ...other, refunded_count: 1 })), { refunded: 1 });
});
