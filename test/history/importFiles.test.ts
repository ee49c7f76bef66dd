import { chmod, readFile, stat, symlink } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { z } from "zod";
import { systemClock } from "../../runtime/clock.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { registrationOf } from "../support/factories.ts";
import { lineOf } from "./importLine.ts";
import { linesOf, setUpImport, summaryOf, writeTestFile } from "./importScene.ts";

const test = testWithDatabase();

test("several files are imported in one run, plain and gzip", async (t) => {
  const { db } = t.context;
  const { id, impact } = await setUpImport(t);
  const plain = await writeTestFile(t, "one.ndjson", linesOf({ ...JSON.parse(lineOf()), id: "1" }));
  const gzip = await writeTestFile(
    t,
    "two.csv.gz",
    gzipSync("id,count,created_at\n2,5,2024-05-01T09:30:00Z\n"),
  );
  const run = await impact(
    "import",
    "history",
    plain,
    gzip,
    "--org",
    id,
    "--kind",
    "tree",
    "--json",
  );
  t.is(run.exitCode, 0, run.stderr);
  t.like(summaryOf(run), { lines: 2, new: 2 });
  t.like(await readAccountSums(db, id), { registrations: 2, total: 6n });
});

test("truncated gzip ends the import with a message and exit code 1, and a repetition with the whole file completes it", async (t) => {
  const { db } = t.context;
  const { id, importText } = await setUpImport(t);
  const lines = Array.from({ length: 6000 }, (_, index) => lineOf({ id: `t-${index}` }));
  const whole = gzipSync(linesOf(...lines));
  const run = await importText(whole.subarray(0, Math.floor(whole.length * 0.8)));
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /standard input is incomplete: its gzip data ends too early\./u);
  t.notRegex(run.stderr, / at .*\.[jt]s:/u);
  const partial = await readAccountSums(db, id);
  t.true(partial.registrations > 0 && partial.registrations < lines.length);
  t.like(summaryOf(await importText(whole)), {
    new: lines.length - partial.registrations,
    known: partial.registrations,
  });

  const damaged = Buffer.from(whole);
  damaged.fill(0xff, 1000, 2000);
  const other = await importText(damaged);
  t.is(other.exitCode, 1);
  t.regex(other.stderr, /gzip data cannot be decompressed\./u);
});

test("rejected lines are in the file with number, outcome, reason and text, readable by its owner only", async (t) => {
  const { importText } = await setUpImport(t);
  // The file of an earlier import, which an editor has saved.
  const rejects = await writeTestFile(t, "rejects", `${"x".repeat(100_000)}\n`);
  await chmod(rejects, 0o644);
  const run = await importText(
    linesOf(
      lineOf({ id: "1" }),
      lineOf({ id: "1", count: 2 }),
      "{",
      ...Array.from({ length: 30 }, () => lineOf({ count: 0 })),
    ),
    "--rejects",
    rejects,
  );
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /More lines are rejected; see /u);
  t.is(run.stderr.match(/^standard input, line /gmu)?.length, 20);
  t.is((await stat(rejects)).mode & 0o777, 0o600);
  const rejected = z.array(z.record(z.string(), z.unknown())).parse(
    (await readFile(rejects, "utf8"))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line)),
  );
  t.is(rejected.length, 32);
  t.deepEqual(
    rejected.find(({ outcome }) => outcome === "conflict"),
    {
      file: "standard input",
      line: 2,
      outcome: "conflict",
      reason: "a record with this id or idempotency_key is there with another count",
      text: lineOf({ id: "1", count: 2 }),
    },
  );
  t.deepEqual(rejected[0], {
    file: "standard input",
    line: 3,
    outcome: "bad",
    reason: "not valid JSON",
    text: "{",
  });
});

test("an import whose file of rejected lines cannot be written ends with a message", async (t) => {
  const { db } = t.context;
  const { id, importText } = await setUpImport(t);
  const run = await importText(linesOf("{", lineOf({ id: "1" })), "--rejects", "/dev/full");
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /^The import stopped\./mu);
  t.regex(run.stderr, /^\{"error":"\/dev\/full cannot be written: ENOSPC.*"exit_code":1\}$/mu);
  t.like(await readAccountSums(db, id), { registrations: 0 });
});

test("an imported file is not overwritten with its rejected lines", async (t) => {
  const { id, impact } = await setUpImport(t);
  const text = linesOf("{", lineOf({ id: "1" }));
  const path = await writeTestFile(t, "mended.ndjson", text);
  const link = `${path}.link`;
  await symlink(path, link);
  const run = await impact("import", "history", path, "--org", id, "--rejects", link);
  t.is(run.exitCode, 2);
  t.regex(run.stderr, /\.link is imported, and --rejects would overwrite it\./u);
  t.is(await readFile(path, "utf8"), text);
});

test("a dry run reports what an import would do and changes nothing", async (t) => {
  const { db } = t.context;
  const { id, importText } = await setUpImport(t);
  await importText(linesOf(lineOf({ id: "1" }), lineOf({ idempotency_key: "k" }), lineOf()));
  const before = await readAccountSums(db, id);
  const text = linesOf(
    lineOf({ id: "1" }),
    lineOf({ id: "1", count: 2 }),
    lineOf({ idempotency_key: "k", attribution: "other" }),
    lineOf(),
    lineOf(),
    lineOf({ id: "2", idempotency_key: "k2" }),
    lineOf({ id: "2", idempotency_key: "k2" }),
    lineOf({ id: "3", idempotency_key: "k2" }),
    lineOf({ id: "4", refunded: true }),
    lineOf({ id: "4" }),
    "x",
    {
      kind: "donation",
      id: "d",
      amount_cents: 5,
      nonprofit_id: "n",
      charity_name: "C",
      created_at: "2024-05-01T09:30:00Z",
    },
  );
  const expected = { lines: 12, new: 4, known: 3, conflict: 4, bad: 1 };
  const dry = await importText(text, "--dry-run");
  t.is(dry.exitCode, 1);
  t.like(summaryOf(dry), expected);
  t.deepEqual(await readAccountSums(db, id), before);
  t.like(summaryOf(await importText(text)), expected);
});

test("content that a terminal would obey is printed escaped", async (t) => {
  const { importText } = await setUpImport(t);
  const run = await importText(
    linesOf(
      lineOf(),
      lineOf({ "\u001B]0;owned\u0007\u202Ename": 1 }),
      lineOf({ ["x".repeat(5000)]: 1 }),
    ),
  );
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /line 2: \\u001B\]0;owned\\u0007\\u202Ename: unknown field/u);
  // oxlint-disable-next-line no-control-regex -- the test looks for control characters.
  t.notRegex(run.stderr, /[\u0000-\u0009\u000B-\u001F\u007F\u202E]/u);
  t.true(run.stderr.length < 1500);
});

test("live registrations during an import are all counted", async (t) => {
  const { db } = t.context;
  const { id, importText } = await setUpImport(t);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const count = 4000;
  const importing = importText(
    linesOf(
      ...Array.from({ length: count }, (_, index) =>
        lineOf({ id: `t-${index}`, idempotency_key: `k-${index}` }),
      ),
    ),
  );
  // Every second key is one of the imported history.
  const posts = await Promise.all(
    Array.from({ length: 400 }, (_, index) =>
      writer.register(
        registrationOf(id, {
          idempotencyKey: index % 2 === 0 ? `k-${index * 10}` : `new-${index}`,
        }),
      ),
    ),
  );
  const run = await importing;
  const { new: imported, conflict } = summaryOf(run);
  const recorded = posts.filter(({ replayed }) => !replayed).length;
  t.is(imported + conflict, count);
  // A key that the client used first is a conflict in the history; one that was imported first was replayed.
  t.is(recorded - 200, conflict);
  const sums = await readAccountSums(db, id);
  t.like(sums, { registrations: imported + recorded, usage: BigInt(recorded) });
  t.is(sums.total, BigInt(imported + recorded));
});
