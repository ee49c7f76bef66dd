import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import { readTotals } from "../../modules/registrations/totals.sql.ts";
import { readJson } from "../cli/runImpact.ts";
import { rowsIn, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { registerFor } from "../support/factories.ts";
import { ANN, DONATION, lineOf } from "./importLine.ts";
import {
  importForStore,
  linesOf,
  readPages,
  serveImport,
  setUpImport,
  summaryOf,
  writeTestFile,
} from "./importScene.ts";
import { createMovableClock } from "../support/movableClock.ts";
import type { DatabaseTest } from "../support/database.ts";

const test = testWithDatabase();

test("what the old server refunded since is subtracted once, and the audit log names it", async (t) => {
  const { db } = t.context;
  const { id, get, importText, readSums } = await serveImport(t);
  await importText(
    linesOf(lineOf({ id: "1", count: 5, refunded_count: 1 }), lineOf({ id: "2" }), DONATION),
  );
  const later = linesOf(
    lineOf({ id: "1", count: 5, refunded_count: 2 }),
    lineOf({ id: "1", count: 5, refunded_count: 4 }),
    lineOf({ id: "1", count: 5, refunded_count: 3 }),
    lineOf({ id: "2", count: 1, refunded: true }),
    { ...DONATION, refunded: true },
  );
  const expected = { exitCode: 0, new: 0, known: 0, refunded: 5, conflict: 0, bad: 0 };
  const dry = await importText(later, "--dry-run");
  t.like(summaryOf(dry), expected, dry.stderr);
  t.like(await readSums(), { refunded: 1n, total: 5n });
  t.like(summaryOf(await importText(later)), expected);
  t.like(await readSums(), { refunded: 5n, total: 1n, facts: 0 });
  const owner = { accountId: id, mode: "live", kind: "tree" } as const;
  t.deepEqual(await readTotals(db, owner, new Date("2024-05-15")), { all: 1, month: 1 });
  const donations = await get("/charities/donations");
  t.like(donations.body["donations"], [{ id: "d", refunded: true }]);

  const again = await importText(later);
  t.like(summaryOf(again), { known: 3, refunded: 0, conflict: 2 });
  t.regex(again.stderr, /line 1: conflict: .* refunded_count \(it is higher here\)$/mu);
  t.like(await readSums(), { refunded: 5n, total: 1n });

  const audit = await listAuditEntries(db, { accountId: id }, 100);
  const refunded = audit
    .flatMap(({ details: { refunded_since: rows = [] } }) => rowsIn({ rows }, "rows"))
    .map(({ id: _id, ...refund }) => refund)
    .toSorted((a, b) => Number(a["count"] ?? 0) - Number(b["count"] ?? 0));
  t.deepEqual(refunded, [
    { kind: "donation", amount_cents: 700 },
    { kind: "tree", count: 1 },
    // Three lines of a batch name the first tree, the last of them with fewer refunds.
    { kind: "tree", count: 3 },
  ]);
});

test("a refund of a record that was created here is a conflict", async (t) => {
  const { db } = t.context;
  const { id, importText, readSums } = await setUpImport(t);
  const { id: registrationId, createdAt } = await registerFor(db, id, { count: 3 });
  const line = { id: registrationId, count: 3, refunded_count: 1, created_at: createdAt };
  const run = await importText(lineOf(line));
  t.like(summaryOf(run), { refunded: 0, conflict: 1 });
  t.like(await readSums(), { refunded: 0n, total: 3n, usage: 3n });
});

const storeLine = (id: string, refunded: number) =>
  lineOf({ id, count: 4, refunded_count: refunded, unit_price_cents: 10, order_id: id });

test("a store's record that was reversed here, too, is a conflict, and the balance never changes", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  await importForStore(t, store.domain, [storeLine("a", 0), storeLine("b", 0)]);
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1, order_id: "a" });
  const run = await importForStore(t, store.domain, [storeLine("a", 2), storeLine("b", 2)]);
  t.like(summaryOf(run), { refunded: 1, conflict: 1 });
  t.regex(run.stderr, /refunded_count \(units were refunded here, too\)$/mu);
  t.like((await get("/app/api/balance", store.live)).body, { balance_cents: 1010 });
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 5 });
});

test("what the old server refunded since an erasure is subtracted, and nothing erased returns", async (t) => {
  const { get, store } = await startStoreApiOf(t);
  const { impact } = await setUpImport(t);
  const donation = { ...DONATION, ...ANN, ein: "530196605" };
  const priced = { unit_price_cents: 10, order_id: "#1", notes: "for Ann", ...ANN };
  const tree = { id: "a", count: 4, ...priced };
  const other = { id: "b", unit_price_cents: 10, customer_name: "Bob Hill" };
  await importForStore(t, store.domain, [lineOf(tree), lineOf(other), donation]);
  await impact("store", "forget", store.domain, "--customer-id", "7");
  const later = [
    lineOf({ ...tree, refunded_count: 3 }),
    lineOf({ ...other, customer_name: "Bob" }),
    { ...donation, refunded: true },
  ];

  const run = await importForStore(t, store.domain, later);
  const again = await importForStore(t, store.domain, later);

  t.like(summaryOf(run), { new: 0, refunded: 2, conflict: 1 }, run.stderr);
  t.regex(run.stderr, /conflict: .* with another customer_name$/mu);
  t.like(summaryOf(again), { new: 0, refunded: 0, known: 2, conflict: 1 });
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 2 });
  const left = { customer_name: "", customer_email: "", customer_id: "", order_id: "" };
  const trees = await get("/app/api/plant", store.live);
  const shown = rowsIn(trees.body, "trees").find(({ id }) => id === "a");
  t.like(shown, { ...left, notes: "" });
  const donations = await get("/app/api/charity/donations", store.live);
  t.like(rowsIn(donations.body, "donations"), [left]);
});

const HISTORY = [
  lineOf({ id: "1", count: 3, attribution: "a" }),
  lineOf({ id: "2", count: 4, refunded_count: 1, attribution: "a" }),
  lineOf({ idempotency_key: "k", kind: "bottle", count: 9 }),
  lineOf({ id: "4" }),
  lineOf({ id: "5" }),
  lineOf({ id: "1", count: 3, attribution: "a" }),
  JSON.stringify(DONATION),
  JSON.stringify({ ...DONATION, id: "r", refunded: true }),
];

test("an imported history is verified, whatever was registered since", async (t) => {
  const { db } = t.context;
  const { id, importText, impact } = await setUpImport(t);
  const file = await writeTestFile(t, "history.ndjson", linesOf(...HISTORY));
  await importText(linesOf(...HISTORY));
  await registerFor(db, id, { count: 5, attribution: "a" });
  const verify = (...options: readonly string[]) =>
    impact("import", "history", file, "--org", id, "--verify", ...options);
  const run = await verify("--json");
  const counts = { lines: 8, new: 0, known: 8, refunded: 0, conflict: 0, bad: 0 };
  t.like(summaryOf(run), { exitCode: 0, ...counts }, run.stderr);
  t.like(readJson(run), { dry_run: true });
  t.regex((await verify()).stdout, /^tree +0 +5 +0 +0$/mu);
  t.is((await verify("--mode", "test")).exitCode, 1);
  t.is((await verify("--dry-run")).exitCode, 2);
});

test("a verification names every line that is missing or different", async (t) => {
  const { importText } = await setUpImport(t);
  await importText(linesOf(...HISTORY));
  const changed = [
    lineOf({ id: "1", count: 3, attribution: "b" }),
    lineOf({ id: "2", count: 4, refunded_count: 2, attribution: "a" }),
    lineOf({ idempotency_key: "k", kind: "bottle", count: 8 }),
    lineOf({ id: "3" }),
    lineOf({ id: "4" }),
    "x",
  ];
  const run = await importText(linesOf(...changed), "--verify");
  t.like(summaryOf(run), { exitCode: 1, new: 1, known: 1, refunded: 1, conflict: 2, bad: 1 });
  t.regex(run.stderr, /line 1: conflict: .* with another attribution$/mu);
  t.regex(run.stderr, /line 2: missing: more of it is refunded in the file$/mu);
  t.regex(run.stderr, /line 3: conflict: .* with another count$/mu);
  t.regex(run.stderr, /line 4: missing: it is not recorded here$/mu);
  t.regex(run.stderr, /Missing, different or bad: 5 of 6 lines \(2 conflicts, 1 bad\)\./u);
});

const AT = "2024-05-01T08:00:00Z";
const SAME_TIME = 1203;

/** Serves a store whose clock stands still. */
const setUp = async (t: DatabaseTest) => {
  const clock = createMovableClock("2024-05-01T08:00:00.000Z");
  const api = await startStoreApiOf(t, { clock, store: { balanceCents: 1000 } });
  return {
    ...api,
    readTrees: async () => {
      const list = { path: "/app/api/plant", rows: "trees" };
      const trees = await readPages(api, api.store.live, list, 100);
      return trees.toReversed().map(({ id, created_at: createdAt }) => ({ id, createdAt }));
    },
  };
};

const tree = (id: string, created_at: string) => lineOf({ id, created_at, unit_price_cents: 50 });

test("imported records of a store with equal times become unique in the order of the file, whenever it is imported", async (t) => {
  const { store, readTrees } = await setUp(t);
  const ids = Array.from({ length: SAME_TIME }, (_, index) => `t-${index}`);
  const lines = ids.map((id) => tree(id, AT));
  const others = [
    tree("later", "2024-05-01T08:00:00.001Z"),
    tree("exact", "2024-05-01T08:00:01.000007Z"),
  ];
  const all = [...lines, ...others];

  const interrupted = await importForStore(t, store.domain, lines.slice(0, 700));
  t.is(summaryOf(interrupted).new, 700);
  const first = summaryOf(await importForStore(t, store.domain, all));
  t.like(first, { new: all.length - 700, known: 700, conflict: 0, bad: 0 });
  const trees = await readTrees();
  const again = summaryOf(await importForStore(t, store.domain, all));
  t.like(again, { new: 0, known: all.length, conflict: 0, bad: 0 });
  t.deepEqual(await readTrees(), trees);

  t.is(new Set(trees.map(({ createdAt }) => createdAt)).size, all.length);
  t.deepEqual(
    trees.slice(0, SAME_TIME).map(({ id }) => id),
    ids,
  );
  t.is(trees[1]?.createdAt, "2024-05-01T08:00:00.000001Z");
  t.is(trees[SAME_TIME - 1]?.createdAt, "2024-05-01T08:00:00.001202Z");
  t.deepEqual(trees.slice(SAME_TIME), [
    { id: "later", createdAt: "2024-05-01T08:00:00.001203Z" },
    { id: "exact", createdAt: "2024-05-01T08:00:01.000007Z" },
  ]);
});

test("an imported record of a store has another time than those that the store wrote before and writes later", async (t) => {
  const { post, store, readTrees } = await setUp(t);
  const write = () => post("/app/api/plant", store.live, { trees: 1 });
  await importForStore(t, store.domain, [tree("before", AT)]);
  t.is((await write()).status, 200);
  await importForStore(t, store.domain, [tree("after", AT)]);
  t.is((await write()).status, 200);

  const times = (await readTrees()).map(({ createdAt }) => createdAt);
  t.deepEqual(
    times,
    [0, 1, 2, 3].map((microsecond) => `2024-05-01T08:00:00.00000${microsecond}Z`),
  );
});
