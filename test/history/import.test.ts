import { PassThrough } from "node:stream";
import { gzipSync } from "node:zlib";
import { openInput, peek } from "../../cli/input/openInput.ts";
import { readCsv } from "../../cli/input/readCsv.ts";
import { splitLines } from "../../cli/input/readLines.ts";
import type { Run } from "../cli/runImpact.ts";
import { registrationsIn } from "../api/contract.ts";
import { z } from "zod";
import { readTotals } from "../../modules/registrations/totals.sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../support/database.ts";
import { registrationOf } from "../support/factories.ts";
import { DONATION, lineOf } from "./importLine.ts";
import type { Fields } from "./importLine.ts";
import { linesOf, serveImport, setUpImport, summaryOf, writeTestFile } from "./importScene.ts";

const test = testWithDatabase();

const textOf = (...all: readonly (string | Fields)[]): string =>
  linesOf(...all.map((line) => (typeof line === "string" ? line : lineOf(line))));

test("each line counts in the totals of its mode, kind and month in UTC", async (t) => {
  const { id, importText } = await setUpImport(t);
  const text = textOf(
    { count: 3, created_at: "2024-01-31T23:30:00-01:00" },
    { count: 4, created_at: "2024-02-29T23:59:59.999Z" },
    { count: 5, created_at: "2024-03-01T00:00:00Z" },
    { count: 6, kind: "bottle" },
  );
  t.is((await importText(text)).exitCode, 0);
  t.is((await importText(textOf({ count: 100 }), "--mode", "test")).exitCode, 0);
  const totalsOf = (mode: "live" | "test", kind: "tree" | "bottle", time: string) =>
    readTotals(t.context.db, { accountId: id, mode, kind }, new Date(time));
  t.deepEqual(await totalsOf("live", "tree", "2024-01-15"), { all: 12, month: 0 });
  t.deepEqual(await totalsOf("live", "tree", "2024-02-15"), { all: 12, month: 7 });
  t.deepEqual(await totalsOf("live", "tree", "2024-03-15"), { all: 12, month: 5 });
  t.deepEqual(await totalsOf("live", "bottle", "2024-05-15"), { all: 6, month: 6 });
  t.deepEqual(await totalsOf("test", "tree", "2024-05-15"), { all: 100, month: 100 });
});

test("importing a file again changes nothing, however its JSON is formatted", async (t) => {
  const { get, importText, readSums } = await serveImport(t);
  const readTrees = async () => (await get("/plant/trees")).body;
  const text = textOf(
    { id: "1", metadata: { a: 1, b: { c: 2, d: 3 } } },
    { idempotency_key: "k" },
    { id: "2", count: 2 },
  );
  t.like(summaryOf(await importText(text)), { new: 3, known: 0 });
  const first = await readTrees();
  const rewritten = [
    '{ "metadata": {"b":{"d":3,"c":2},"a":1}, "created_at":"2024-05-01T11:30:00+02:00", "count":1, "kind":"tree", "id":"1" }\r',
    lineOf({ idempotency_key: "k" }),
    lineOf({ id: "2", count: 2, attribution: "", metadata: {} }),
  ].join("\n");
  t.like(summaryOf(await importText(rewritten)), { new: 0, known: 3 });
  t.deepEqual(await readTrees(), first);
  t.like(await readSums(), { registrations: 3, total: 4n });
});

test("an idempotency key means one registration in a file and the API, for each mode and kind", async (t) => {
  const { db } = t.context;
  const { id, importText } = await setUpImport(t);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const post = (key: string, count: number) =>
    writer.register(registrationOf(id, { count, idempotencyKey: key }));
  const posted = await post("posted", 8);
  const run = await importText(
    textOf(
      { idempotency_key: "imported", count: 2 },
      { idempotency_key: "imported", count: 3 },
      { idempotency_key: "posted", count: 5 },
      { idempotency_key: "imported", kind: "bottle" },
    ),
  );
  t.like(summaryOf(run), { exitCode: 1, lines: 4, new: 2, known: 0, conflict: 2, bad: 0 });
  t.regex(
    run.stderr,
    /line 2: conflict: a record with this id or idempotency_key is there with another count$/mu,
  );
  t.regex(run.stderr, /line 3: conflict: .* with another count, created_at$/mu);
  const replay = await post("imported", 50);
  t.true(replay.replayed);
  t.is(replay.registration.count, 2);
  t.deepEqual(replay.registration.createdAt, new Date("2024-05-01T09:30:00Z"));
  t.is((await post("posted", 1)).registration.id, posted.registration.id);
  t.is(replay.totals.all, 10);
});

test("a line that cannot be imported is skipped, and reported by its number", async (t) => {
  const { importText, readSums } = await setUpImport(t);
  const run = await importText(
    textOf({ count: 2 }, "", { count: 1.5 }, "x".repeat(1_100_000), "{", { count: 3 }),
  );
  t.regex(run.stderr, /^standard input, line 3: count: must be an integer/mu);
  t.regex(run.stderr, /^standard input, line 4: longer than 1048576 characters$/mu);
  t.regex(run.stderr, /^standard input, line 5: not valid JSON$/mu);
  t.like(summaryOf(run), { exitCode: 1, lines: 5, new: 2, known: 0, conflict: 0, bad: 3 });
  t.like(await readSums(), { registrations: 2, registered: 5n, total: 5n });
});

test("only the line that would make a total exceed a safe integer is skipped", async (t) => {
  const { importText, readSums } = await setUpImport(t);
  const many = Array.from({ length: 40 }, (_, index) => lineOf({ count: index + 1 }));
  const run = await importText(
    textOf(...many.slice(0, 20), { count: Number.MAX_SAFE_INTEGER }, ...many.slice(20)),
  );
  t.is(run.exitCode, 1);
  t.regex(
    run.stderr,
    /^standard input, line 21: count: would increase the account's total to more than/mu,
  );
  t.like(await readSums(), { registrations: 40, total: 820n });
});

test("bytes that are not UTF-8 make a line invalid; a byte order mark does not", async (t) => {
  const { importText } = await setUpImport(t);
  const run = await importText(
    Buffer.concat([
      Buffer.from(`\uFEFF${lineOf({ count: 1 })}\n`),
      Buffer.from(lineOf({ attribution: "caf#" }).replace("#", "\u00E9"), "latin1"),
      Buffer.from(`\n${lineOf({ count: 2 })}`),
    ]),
  );
  t.regex(run.stderr, /^standard input, line 2: not well-formed UTF-8 or UTF-16$/mu);
  t.like(summaryOf(run), { new: 2, bad: 1 });
  t.is((await importText("\n\n")).exitCode, 0, "an empty file is no error");
});

test("two concurrent imports of one file import each registration once", async (t) => {
  const { importText, readSums } = await setUpImport(t);
  const text = textOf(
    ...Array.from({ length: 3000 }, (_, index) => ({
      count: (index % 5) + 1,
      kind: index % 2 === 0 ? "tree" : "bottle",
      metadata: { index },
      ...(index % 3 === 0 ? { idempotency_key: `k${index}` } : {}),
    })),
  );
  const runs = await Promise.all([importText(text), importText(text)]);
  t.like(runs, [{ exitCode: 0 }, { exitCode: 0 }]);
  const sums = await readSums();
  t.is(sums.registrations, 3000);
  t.is(sums.total, sums.registered);
});

const rejectsOf = ({ stdout }: Run) =>
  stdout
    .trimEnd()
    .split("\n")
    .map((line) => z.record(z.string(), z.unknown()).parse(JSON.parse(line)));

test("several files are imported in one run, plain and gzip", async (t) => {
  const { id, impact, readSums } = await setUpImport(t);
  const plain = await writeTestFile(t, "one.ndjson", linesOf({ ...JSON.parse(lineOf()), id: "1" }));
  const csv = gzipSync("id,count,created_at\n2,5,2024-05-01T09:30:00Z\n");
  const gzip = await writeTestFile(t, "two.csv.gz", csv);
  const command = `import history ${plain} ${gzip} --org ${id} --kind tree --json`;
  const run = await impact(...command.split(" "));
  t.like(summaryOf(run), { exitCode: 0, lines: 2, new: 2 }, run.stderr);
  t.like(await readSums(), { registrations: 2, total: 6n });
});

test("truncated gzip ends the import with a message and exit code 1, and a repetition with the whole file completes it", async (t) => {
  const { importText, readSums } = await setUpImport(t);
  const lines = Array.from({ length: 6000 }, (_, index) => lineOf({ id: `t-${index}` }));
  const whole = gzipSync(linesOf(...lines));
  const run = await importText(whole.subarray(0, Math.floor(whole.length * 0.8)));
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /standard input is incomplete: its gzip data ends too early\./u);
  t.notRegex(run.stderr, / at .*\.[jt]s:/u);
  const partial = await readSums();
  t.true(partial.registrations > 0 && partial.registrations < lines.length);
  t.like(summaryOf(await importText(whole)), {
    new: lines.length - partial.registrations,
    known: partial.registrations,
  });
});

test("all rejected lines are printed with number, outcome, reason and text, and the summary beside them", async (t) => {
  const { importText } = await setUpImport(t);
  const lines = linesOf(
    lineOf({ id: "1" }),
    lineOf({ id: "1", count: 2 }),
    "{",
    ...Array.from({ length: 30 }, () => lineOf({ count: 0 })),
  );
  const run = await importText(lines, "--rejects");
  t.is(run.exitCode, 1);
  t.is(run.stderr.match(/^standard input, line /gmu)?.length, 20);
  t.regex(run.stderr, /"bad": 31/u);
  const rejected = rejectsOf(run);
  t.is(rejected.length, 32);
  const numbers = Array.from({ length: 32 }, (_, index) => ({ line: index + 2 }));
  t.like(rejected, numbers);
  const file = "standard input";
  const reason = "a record with this id or idempotency_key is there with another count";
  const text = lineOf({ id: "1", count: 2 });
  t.deepEqual(rejected.slice(0, 2), [
    { file, line: 2, outcome: "conflict", reason, text },
    { file, line: 3, outcome: "bad", reason: "not valid JSON", text: "{" },
  ]);
  const again = await importText(lines);
  t.regex(again.stderr, /^More lines are rejected\. To see all of them, use --rejects\.$/mu);
});

test("a dry run reports what an import would do and changes nothing", async (t) => {
  const { importText, readSums } = await setUpImport(t);
  await importText(
    linesOf(lineOf({ id: "1" }), lineOf({ idempotency_key: "k" }), lineOf({ id: "5" })),
  );
  const before = await readSums();
  const text = linesOf(
    lineOf({ id: "1" }),
    lineOf({ id: "1", count: 2 }),
    lineOf({ idempotency_key: "k", attribution: "other" }),
    lineOf({ id: "5" }),
    lineOf(),
    lineOf({ id: "2", idempotency_key: "k2" }),
    lineOf({ id: "2", idempotency_key: "k2" }),
    lineOf({ id: "3", idempotency_key: "k2" }),
    lineOf({ id: "4", refunded: true }),
    lineOf({ id: "4" }),
    lineOf({ id: "a", idempotency_key: "k9" }),
    // The same record, by its key only.
    lineOf({ idempotency_key: "k9" }),
    lineOf({ id: "b", idempotency_key: "k9" }),
    // The id of a line that is rejected is free.
    lineOf({ id: "b" }),
    lineOf({ id: "a" }),
    "x",
    DONATION,
  );
  const expected = { exitCode: 1, lines: 17, new: 6, known: 4, conflict: 6, bad: 1 };
  t.like(summaryOf(await importText(text, "--dry-run")), expected);
  t.deepEqual(await readSums(), before);
  t.like(summaryOf(await importText(text)), expected);
});

test("live registrations during an import are all counted", async (t) => {
  const { db } = t.context;
  const { id, importText, readSums } = await setUpImport(t);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const count = 2000;
  const history = Array.from({ length: count }, (_, index) =>
    lineOf({ id: `t-${index}`, idempotency_key: `k-${index}` }),
  );
  const importing = importText(linesOf(...history));
  // Every second key is one of the imported history.
  const keys = Array.from({ length: 100 }, (_, index) => [
    `k-${index * 20}`,
    `new-${index}`,
  ]).flat();
  const posts = await Promise.all(
    keys.map((idempotencyKey) => writer.register(registrationOf(id, { idempotencyKey }))),
  );
  const run = await importing;
  const { new: imported, conflict } = summaryOf(run);
  const recorded = posts.filter(({ replayed }) => !replayed).length;
  t.is(imported + conflict, count);
  // A key that the client used first is a conflict in the history; one that was imported first was replayed.
  t.is(recorded - 100, conflict);
  const sums = await readSums();
  t.like(sums, { registrations: imported + recorded, usage: BigInt(recorded) });
  t.is(sums.total, BigInt(imported + recorded));
});

const CSV = `\uFEFF"kind","id",count,created_at,attribution,metadata,idempotency_key,refunded\r
tree,t-1,3,2024-05-01T09:30:00Z,"a, ""quoted""\r
tag","{""a"":[1,2]}",k-1,false\r
bottle,b-1,4,2024-05-02T09:30:00+02:00,,,,TRUE\r
\r
tree,t-2,x,2024-05-01T09:30:00Z,,,,\r
tree,t-3,1,2024-05-01T09:30:00Z\r
tree,t-4,1,2024-05-01T09:30:00Z,,not JSON,,\r
`;

test("CSV is imported, with quotes, line breaks in cells and a byte order mark", async (t) => {
  const { get, importText } = await serveImport(t);
  const run = await importText(CSV);
  t.like(summaryOf(run), { exitCode: 1, lines: 5, new: 2, known: 0, conflict: 0, bad: 3 });
  t.regex(run.stderr, /^standard input, line 6: count: must be an integer/mu);
  t.regex(run.stderr, /^standard input, line 7: has 4 columns instead of 8$/mu);
  t.regex(run.stderr, /^standard input, line 8: metadata: must be a JSON object$/mu);
  const trees = await get("/plant/trees");
  t.like(registrationsIn(trees.body, "tree")[0], {
    id: "t-1",
    count: 3,
    attribution: 'a, "quoted"\r\ntag',
    metadata: { a: [1, 2] },
    idempotency_key: "k-1",
    refunded: false,
  });
  const bottles = await get("/rescue/plastic_bottles");
  t.is(bottles.body["total_rescued_bottles"], 0);
  t.like(registrationsIn(bottles.body, "bottle")[0], {
    id: "b-1",
    created_at: "2024-05-02T07:30:00.000Z",
    refunded: true,
    refunded_count: 4,
  });
});

test("a malformed CSV line is rejected with its number and text, and the rest is imported", async (t) => {
  const { importText } = await setUpImport(t);
  const malformed = [
    'tree,a,1,2024-05-01T09:30:00Z,a"b"',
    'tree,b,1,2024-05-01T09:30:00Z,"a"b""',
    'tree,c,1,2024-05-01T09:30:00Z,"a" ',
    'tree,d,1,2024-05-01T09:30:00Z,5" pipe',
    'tree,e,1,2024-05-01T09:30:00Z,"a"b"',
    'tree,f,1,2024-05-01T09:30:00Z,a;"b',
  ];
  const run = await importText(
    [
      "kind,id,count,created_at,attribution",
      ...malformed.flatMap((line, index) => [
        line,
        `tree,good-${index},1,2024-05-01T09:30:00Z,"fine, ""x"","`,
      ]),
    ].join("\n"),
    "--rejects",
  );
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /"lines": 12,\s+"bad": 6/u);
  const reason = "a cell with quotes must be in quotes, with its own quotes doubled";
  t.deepEqual(
    rejectsOf(run),
    malformed.map((text, index) =>
      Object.assign(
        { file: "standard input", line: 2 * (index + 1) },
        { outcome: "bad", reason, text },
      ),
    ),
  );
});

test("an unclosed quote ends the import with a message, after all earlier lines are imported", async (t) => {
  const { importText, readSums } = await setUpImport(t);
  const run = await importText(
    'id,kind,count,created_at\n1,tree,1,2024-05-01T09:30:00Z\n2,tree,1,"2024-05-01T09:30:00Z\n3,tree,2,2024-05-01T09:30:00Z\n',
  );
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /standard input, line 3: a quote is not closed/u);
  t.like(await readSums(), { registrations: 1 });
  t.notRegex(run.stderr, / at .*\.[jt]s:/u);

  const long = await importText(`kind,count,created_at\ntree,1,"${"x\n".repeat(600_000)}`);
  t.regex(long.stderr, /standard input, line 2: the record is longer than 1048576 characters/u);
});

for (const [title, delimiter, encode] of [
  ["with semicolons, as in spreadsheets", ";", (text: string) => Buffer.from(`\uFEFF${text}`)],
  ["with tabs in UTF-16", "\t", (text: string) => Buffer.from(`\uFEFF${text}`, "utf16le")],
  ["with bars in UTF-16 without a mark", "|", (text: string) => Buffer.from(text, "utf16le")],
  [
    "in UTF-16 of the other byte order",
    ",",
    (text: string) => Buffer.from(`\uFEFF${text}`, "utf16le").swap16(),
  ],
] as const) {
  test(`CSV is imported ${title}`, async (t) => {
    const { importText, readSums } = await setUpImport(t);
    const rows = [
      ["id", "kind", "count", "attribution", "created_at"],
      ["t-1", "tree", "4", `"a${delimiter}b"`, "2024-05-01T09:30:00Z"],
      ["", "", "", "", ""],
      ["b-1", "bottle", "5", "Zoë", "2024-05-01T09:30:00Z"],
    ];
    const run = await importText(encode(rows.map((row) => row.join(delimiter)).join("\r\n")));
    t.like(summaryOf(run), { exitCode: 0, lines: 2, new: 2 }, run.stderr);
    t.like(await readSums(), { registrations: 2, total: 9n });
  });
}

test("an input that is refused is closed, because an open pipe keeps the process alive", async (t) => {
  const stdin = new PassThrough();
  stdin.write("Type;Count\n");
  const { bytes } = await openInput("-", { ...process, stdin, json: false });
  const { all } = await peek(splitLines(bytes), () => true);
  await t.throwsAsync(readCsv("-", all, new Set()).next(), { message: /unknown or repeated/u });
  t.true(stdin.destroyed);
});

const REFUSED: readonly (readonly [string, RegExp])[] = [
  ["PK\u0003\u0004rest", /is a ZIP archive or a spreadsheet\. Save the sheet as CSV/u],
  [
    "Type;Count\ntree;1\n",
    /split at semicolons, has 2 columns: Type, Count\. Type, Count are unknown/u,
  ],
  [
    "kind,count,created_at,colour\ntree,1,2024-05-01T09:30:00Z,red\n",
    /colour is unknown or repeated\. Known columns: .*created_at/u,
  ],
];

test("a file that is none of the formats, or has an unknown column, is refused as a whole with what was found", async (t) => {
  const { importText, readSums } = await setUpImport(t);
  for (const [content, message] of REFUSED) {
    const run = await importText(content);
    t.is(run.exitCode, 2);
    t.regex(run.stderr, message);
  }
  t.like(await readSums(), { registrations: 0 });
});
