import { systemClock } from "../../domain/clock.ts";
import { sql } from "../../db/sql.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { readJson } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { registrationOf } from "../support/factories.ts";
import { lineOf } from "./importLine.ts";
import { linesOf, setUpImport, writeTestFile } from "./importScene.ts";

const test = testWithDatabase();

const DONATION = {
  kind: "donation",
  id: "d",
  amount_cents: 700,
  nonprofit_id: "n",
  charity_name: "C",
  created_at: "2024-06-01T00:00:00Z",
};

const HISTORY = [
  lineOf({ id: "1", count: 3, attribution: "a" }),
  lineOf({ id: "2", count: 4, refunded_count: 1, attribution: "a" }),
  lineOf({ idempotency_key: "k", kind: "bottle", count: 9 }),
  lineOf(),
  lineOf(),
  lineOf({ id: "1", count: 3, attribution: "a" }),
  JSON.stringify(DONATION),
  JSON.stringify({ ...DONATION, id: "r", refunded: true }),
];

test("an imported history is verified, whatever was registered since", async (t) => {
  const { db } = t.context;
  const { id, importText, impact } = await setUpImport(t);
  const file = await writeTestFile(t, "history.ndjson", linesOf(...HISTORY));
  await importText(linesOf(...HISTORY));
  const writer = createRegistrationWriter({ db, clock: systemClock });
  await writer.register(registrationOf(id, { count: 5, attribution: "a" }));
  const run = await impact("verify-import", file, "--org", id, "--json");
  t.is(run.exitCode, 0, run.stderr);
  t.deepEqual(readJson(run), {
    lines: 8,
    bad: 0,
    repeated: 1,
    evidence: { lines: 0, different: 0 },
    ledger: {
      lines: 0,
      different: 0,
      stated_cents: null,
      entries: 0,
      imported_cents: 0,
      balance_cents: 0,
      sum_cents: 0,
    },
    files: [
      { kind: "bottle", records: 1, quantity: "9", refunded: "0" },
      { kind: "donation", records: 2, quantity: "1400", refunded: "700" },
      { kind: "tree", records: 4, quantity: "9", refunded: "1" },
    ],
    differences: [],
    has_more_differences: false,
    counters: [],
  });
  t.is((await impact("verify-import", file, "--org", id, "--mode", "test")).exitCode, 1);
});

test("what is missing, other or too much is a difference by kind, month and attribution", async (t) => {
  const { id, importText, impact } = await setUpImport(t);
  await importText(linesOf(...HISTORY));
  const changed = [
    lineOf({ id: "1", count: 3, attribution: "b" }),
    lineOf({ id: "2", count: 4, refunded_count: 2, attribution: "a" }),
    lineOf({ idempotency_key: "k", kind: "bottle", count: 8 }),
    lineOf(),
    "x",
  ];
  const file = await writeTestFile(t, "changed.ndjson", linesOf(...changed));
  const run = await impact("verify-import", file, "--org", id, "--json");
  t.is(run.exitCode, 1);
  const month = "2024-05";
  t.like(readJson(run), {
    bad: 1,
    differences: [
      {
        kind: "bottle",
        month,
        attribution: "",
        files: { records: 1, quantity: "8", refunded: "0" },
        database: { records: 1, quantity: "9", refunded: "0" },
      },
      {
        kind: "donation",
        month: "2024-06",
        files: { records: 0, quantity: "0" },
        database: { records: 2, quantity: "1400", refunded: "700" },
      },
      { kind: "tree", attribution: "", files: { records: 1 }, database: { records: 2 } },
      {
        kind: "tree",
        attribution: "a",
        files: { records: 1, quantity: "4", refunded: "2" },
        database: { records: 2, quantity: "7", refunded: "1" },
      },
      { kind: "tree", attribution: "b", files: { records: 1 }, database: { records: 0 } },
    ],
  });
  const printed = await impact("verify-import", file, "--org", id);
  t.regex(printed.stdout, /bottle +2024-05 +- +quantity +8 +9/u);
  t.regex(printed.stderr, /differ in 5 sums/u);
});

test("a total of the API that differs from its records is a difference", async (t) => {
  const { db } = t.context;
  const { id, importText, impact } = await setUpImport(t);
  const file = await writeTestFile(t, "history.ndjson", linesOf(...HISTORY));
  await importText(linesOf(...HISTORY));
  await db.query(sql.typeAlias("void")`
    UPDATE impact_total SET total = total + 1 WHERE account_id = ${id} AND kind = 'tree' AND period = 'all'
  `);
  const run = await impact("verify-import", file, "--org", id, "--json");
  t.is(run.exitCode, 1);
  t.like(readJson(run), {
    differences: [],
    counters: [{ counter: "tree", period: "all", counted: "9", recorded: "8" }],
  });
});
