import type { ExecutionContext } from "ava";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import type { Fields } from "./importLine.ts";
import { importForStore, linesOf, setUpImport, summaryOf, writeTestFile } from "./importScene.ts";

const test = testWithDatabase();

const entry = (id: string, kind: string, amount: number, balance: number, more: Fields = {}) => ({
  kind: "balance_entry",
  id,
  entry_kind: kind,
  amount_cents: amount,
  balance_cents: balance,
  created_at: "2024-05-01T10:00:00Z",
  ...more,
});

const LEDGER = [
  entry("1", "topup", 10_000, 10_000, { reference: "invoice-7", note: "wire transfer" }),
  entry("2", "tree", -450, 9550, { quantity: 10, reference: "order of Ann Smith" }),
  entry("3", "donation", -250, 9300),
  entry("4", "refund", 90, 9390, { quantity: 2, note: "Ann Smith sent them back" }),
  entry("5", "adjustment", -390, 9000),
];

const setUpLedger = async (t: ExecutionContext<DatabaseContext>) => {
  const { db, databaseUrl } = t.context;
  const store = await createTestStore(db, { balanceCents: 0 });
  const env = { DATABASE_URL: databaseUrl };
  const impact = (...args: readonly string[]) => runImpact(args, { env });
  return {
    impact,
    store,
    importEntries: (lines: readonly Fields[], ...options: readonly string[]) =>
      importForStore(t, store.domain, lines, ...options),
    ledger: async () => readJson(await impact("store", "ledger", store.domain, "--json")),
    verify: async (lines: readonly Fields[]) => {
      const file = await writeTestFile(t, "ledger.ndjson", linesOf(...lines));
      return impact("verify-import", file, "--store", store.domain, "--json");
    },
  };
};

test("a store's ledger is imported entry by entry, once, and its balance with it", async (t) => {
  const { importEntries, ledger, verify, impact, store } = await setUpLedger(t);
  const dry = await importEntries(LEDGER, "--dry-run");
  t.like(summaryOf(dry), { lines: 5, new: 5 }, dry.stderr);
  t.deepEqual(await ledger(), []);
  const run = await importEntries(LEDGER.slice(0, 3));
  t.is(run.exitCode, 0, run.stderr);
  const rest = await importEntries(LEDGER);
  t.like(summaryOf(rest), { new: 2, known: 3, conflict: 0, bad: 0 });
  t.like(await ledger(), [
    { kind: "adjustment", amount_cents: -390, balance_cents: 9000 },
    // Notes and references of these kinds may name a customer, and an erasure would not find them.
    { kind: "refund", amount_cents: 90, balance_cents: 9390, quantity: 2, note: "" },
    { kind: "donation", amount_cents: -250, balance_cents: 9300 },
    { kind: "tree", amount_cents: -450, balance_cents: 9550, quantity: 10, reference: null },
    {
      kind: "topup",
      amount_cents: 10_000,
      balance_cents: 10_000,
      reference: "invoice-7",
      note: "wire transfer",
      created_at: "2024-05-01T10:00:00.000000Z",
    },
  ]);
  const verified = await verify(LEDGER);
  t.is(verified.exitCode, 0, verified.stderr);
  t.like(readJson(verified), { ledger: { lines: 5, different: 0, entries: 5, sum_cents: 9000 } });

  // The reference of an imported top-up is known: entering it again adds nothing.
  const topUp = ["store", "topup", store.domain, "--amount", "100.00", "--reference", "invoice-7"];
  t.is((await impact(...topUp)).exitCode, 0);
  t.like(await ledger(), [{ balance_cents: 9000 }]);
});

test("what is missing or different in a ledger is found", async (t) => {
  const { importEntries, verify } = await setUpLedger(t);
  await importEntries(LEDGER.slice(0, 4));
  const missing = await verify(LEDGER);
  t.is(missing.exitCode, 1);
  t.regex(missing.stderr, /1 of 5 lines is missing or different, 4 imported entries are here/u);
  t.is((await verify(LEDGER.slice(0, 3))).exitCode, 1);
  t.is((await verify([...LEDGER.slice(0, 4), ...LEDGER.slice(0, 2)])).exitCode, 0);
});

test("an entry that differs from the recorded one, or cannot follow the balance, changes nothing", async (t) => {
  const { importEntries, ledger } = await setUpLedger(t);
  await importEntries(LEDGER.slice(0, 1));
  const run = await importEntries([
    entry("1", "topup", 9999, 10_000, { reference: "invoice-7" }),
    entry("6", "topup", 5, 10_005, { reference: "invoice-7" }),
    entry("7", "tree", -10, 9000),
    entry("8", "tree", 10, 10_010),
    { ...entry("9", "tree", -20_000, 0), balance_cents: undefined },
    entry("10", "gift", 1, 10_001),
  ]);
  t.is(run.exitCode, 1);
  t.like(summaryOf(run), { new: 0, conflict: 2, bad: 4 });
  t.regex(
    run.stderr,
    /line 1: conflict: an entry with this id is there with another amount_cents/u,
  );
  t.regex(run.stderr, /line 2: conflict: another entry has the reference invoice-7/u);
  t.regex(run.stderr, /line 3: the balance after it would be 9990 cents here/u);
  t.regex(run.stderr, /line 4: amount_cents: of a tree must be negative/u);
  t.regex(run.stderr, /line 5: the balance would become -10000 cents/u);
  t.regex(run.stderr, /line 6: entry_kind: must be one of topup, /u);
  t.like(await ledger(), [{ balance_cents: 10_000 }]);
  const { importText } = await setUpImport(t);
  t.regex((await importText(linesOf(...LEDGER))).stderr, /line 1: only stores have a balance/u);
});

/** More lines than a batch has. */
const MANY = 2001;

test("a dry run finds entries that repeat those of earlier batches", async (t) => {
  const { importEntries } = await setUpLedger(t);
  const many = Array.from({ length: MANY }, (_, index) =>
    entry(`m-${index}`, "adjustment", 1, 9001 + index),
  );
  const lines = [
    ...LEDGER,
    ...many,
    ...LEDGER,
    entry("1", "topup", 5, 9006 + MANY),
    entry("6", "topup", 5, 9006 + MANY, { reference: "invoice-7" }),
    { ...entry("7", "topup", 5, 9005 + MANY), note: "after all of them" },
  ];
  const expected = { new: 5 + MANY + 1, known: 5, conflict: 2, bad: 0 };

  const dry = await importEntries(lines, "--dry-run");
  const run = await importEntries(lines);

  t.like(summaryOf(dry), expected, dry.stderr.slice(0, 1000));
  t.like(summaryOf(run), expected, run.stderr.slice(0, 1000));
});
