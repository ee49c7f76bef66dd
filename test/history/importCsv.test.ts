import { readFile } from "node:fs/promises";
import { registrationsIn } from "../api/contract.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { setUpImport, summaryOf, writeTestFile } from "./importScene.ts";

const test = testWithDatabase();

const CSV = `\uFEFFkind,id,count,created_at,attribution,metadata,idempotency_key,refunded\r
tree,t-1,3,2024-05-01T09:30:00Z,"a, ""quoted""\r
tag","{""a"":[1,2]}",k-1,false\r
bottle,b-1,4,2024-05-02T09:30:00+02:00,,,,TRUE\r
\r
tree,t-2,x,2024-05-01T09:30:00Z,,,,\r
tree,t-3,1,2024-05-01T09:30:00Z\r
tree,t-4,1,2024-05-01T09:30:00Z,,not JSON,,\r
`;

test("CSV is imported, with quotes, line breaks in cells and a byte order mark", async (t) => {
  const { db } = t.context;
  const { apiKeyProd: key, importText } = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db });
  const run = await importText(CSV);
  t.is(run.exitCode, 1);
  t.like(summaryOf(run), { lines: 5, new: 2, known: 0, conflict: 0, bad: 3 });
  t.regex(run.stderr, /^standard input, line 6: count: must be an integer/mu);
  t.regex(run.stderr, /^standard input, line 7: has 4 columns instead of 8$/mu);
  t.regex(run.stderr, /^standard input, line 8: metadata: must be a JSON object$/mu);
  const trees = await call("GET", "/plant/trees", { key });
  t.like(registrationsIn(trees.body, "tree")[0], {
    id: "t-1",
    count: 3,
    attribution: 'a, "quoted"\r\ntag',
    metadata: { a: [1, 2] },
    idempotency_key: "k-1",
    refunded: false,
  });
  const bottles = await call("GET", "/rescue/plastic_bottles", { key });
  t.is(bottles.body["total_rescued_bottles"], 0);
  t.like(registrationsIn(bottles.body, "bottle")[0], {
    id: "b-1",
    created_at: "2024-05-02T07:30:00.000Z",
    refunded: true,
    refunded_count: 4,
  });
});

test("CSV whose header is in quotes is imported", async (t) => {
  const { importText } = await setUpImport(t);
  const run = await importText(
    '"kind","id","count","created_at"\n"tree","t-1","3","2024-05-01T09:30:00Z"\n',
  );
  t.is(run.exitCode, 0, run.stderr);
  t.like(summaryOf(run), { lines: 1, new: 1, bad: 0 });
});

test("CSV with an unknown column is refused as a whole, by the column's name", async (t) => {
  const { id, importText } = await setUpImport(t);
  const run = await importText("kind,count,created_at,colour\ntree,1,2024-05-01T09:30:00Z,red\n");
  t.is(run.exitCode, 2);
  t.regex(run.stderr, /colour is unknown or repeated\. Known columns: .*created_at/u);
  t.like(await readAccountSums(t.context.db, id), { registrations: 0 });
});

test("a malformed CSV line is rejected with its number and text, and the rest is imported", async (t) => {
  const { importText } = await setUpImport(t);
  const path = await writeTestFile(t, "placeholder", "");
  const rejects = `${path}.rejects`;
  const malformed = [
    'tree,a,1,2024-05-01T09:30:00Z,a"b"',
    'tree,b,1,2024-05-01T09:30:00Z,"a"b""',
    'tree,c,1,2024-05-01T09:30:00Z,"a" ',
    'tree,d,1,2024-05-01T09:30:00Z,x"\nstill line 5"',
  ];
  const run = await importText(
    [
      "kind,id,count,created_at,attribution",
      ...malformed.flatMap((line, index) => [
        line,
        `tree,good-${index},1,2024-05-01T09:30:00Z,"fine, ""x"""`,
      ]),
    ].join("\n"),
    "--rejects",
    rejects,
  );
  t.is(run.exitCode, 1);
  t.like(summaryOf(run), { lines: 9, new: 4, bad: 5 });
  const rejected = (await readFile(rejects, "utf8"))
    .trimEnd()
    .split("\n")
    .map((line): unknown => JSON.parse(line));
  const quotes = "a cell with quotes must be in quotes, with its own quotes doubled";
  const bad = { file: "standard input", outcome: "bad" };
  t.deepEqual(rejected, [
    { ...bad, line: 2, reason: quotes, text: malformed[0] },
    { ...bad, line: 4, reason: quotes, text: malformed[1] },
    { ...bad, line: 6, reason: quotes, text: malformed[2] },
    { ...bad, line: 8, reason: quotes, text: 'tree,d,1,2024-05-01T09:30:00Z,x"' },
    { ...bad, line: 9, reason: quotes, text: 'still line 5"' },
  ]);
});

test("an unclosed quote ends the import with a message, after all earlier lines are imported", async (t) => {
  const { db } = t.context;
  const { id, importText } = await setUpImport(t);
  const run = await importText(
    'kind,count,created_at\ntree,1,2024-05-01T09:30:00Z\ntree,1,"2024-05-01T09:30:00Z\ntree,2,2024-05-01T09:30:00Z\n',
  );
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /standard input, line 3: a quote is not closed/u);
  t.like(await readAccountSums(db, id), { registrations: 1 });
  t.notRegex(run.stderr, / at .*\.[jt]s:/u);

  const long = await importText(`kind,count,created_at\ntree,1,"${"x\n".repeat(600_000)}`);
  t.regex(long.stderr, /standard input, line 2: the record is longer than 1048576 characters/u);
});

test("a quote that closes late makes the lines to it part of the rejected record", async (t) => {
  const { importText } = await setUpImport(t);
  const time = "2024-05-01T09:30:00Z";
  const run = await importText(
    `id,kind,count,created_at\n\n"a,tree,1,${time}\nb,tree,1,${time}\n"c",tree,1,${time}\nd,tree,1,${time}\n`,
  );
  t.like(summaryOf(run), { new: 1, bad: 1 });
  t.regex(run.stderr, /line 3: a cell with quotes .* \(with all lines to 5, by its quotes\)$/mu);
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
    const { db } = t.context;
    const { id, importText } = await setUpImport(t);
    const rows = [
      ["kind", "count", "attribution", "created_at"],
      ["tree", "4", `"a${delimiter}b"`, "2024-05-01T09:30:00Z"],
      ["", "", "", ""],
      ["bottle", "5", "Zoë", "2024-05-01T09:30:00Z"],
    ];
    const run = await importText(encode(rows.map((row) => row.join(delimiter)).join("\r\n")));
    t.is(run.exitCode, 0, run.stderr);
    t.like(summaryOf(run), { lines: 2, new: 2 });
    t.like(await readAccountSums(db, id), { registrations: 2, total: 9n });
  });
}

test("the message on a file that is none of the formats says what was found", async (t) => {
  const { importText } = await setUpImport(t);
  const spreadsheet = await importText("PK\u0003\u0004rest");
  t.is(spreadsheet.exitCode, 2);
  t.regex(spreadsheet.stderr, /is a ZIP archive or a spreadsheet\. Save the sheet as CSV/u);
  const other = await importText("Type;Count\ntree;1\n");
  t.is(other.exitCode, 2);
  t.regex(
    other.stderr,
    /split at semicolons, has 2 columns: Type, Count\. Type, Count are unknown/u,
  );
});
