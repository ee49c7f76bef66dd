import type { DatabasePool } from "slonik";
import { sql } from "../../db/sql.ts";
import { accountModeKey } from "../../modules/records/owner.rules.ts";
import { Gate } from "../../runtime/gate.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { insertDonationTotals } from "../charities/donations/donationSetup.ts";
import { rowsIn, startStoreApiOf } from "../stores/startStoreApi.ts";
import { registrationsIn } from "./contract.ts";
import { readDescription } from "./responseChecker.ts";
import { startStandaloneApi, startApiOf } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const CSV = "text/csv";
const NDJSON = "application/x-ndjson";

const download = async (url: string, accept: string, headers: Record<string, string>) => {
  const response = await fetch(url, { headers: { ...headers, accept } });
  return { status: response.status, headers: response.headers, text: await response.text() };
};

/** Starts an API, and returns it with what downloads a list of a new organization. */
const startExports = async (t: DatabaseTest, options: Parameters<typeof startApiOf>[1] = {}) => {
  const api = await startApiOf(t, options);
  return {
    ...api,
    list: (path: string, accept: string) =>
      download(api.url + path, accept, { Authorization: api.key }),
  };
};

/** Reads CSV as RFC 4180 describes it. */
const parseCsv = (text: string): readonly (readonly string[])[] => {
  const rows: string[][] = [[]];
  for (const [, quoted, plain = "", end] of text.matchAll(
    /(?:"(?<quoted>(?:[^"]|"")*)"|(?<plain>[^",\r\n]*))(?<end>,|\r\n|$)/gu,
  )) {
    rows.at(-1)?.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === "\r\n") {
      rows.push([]);
    }
  }
  if (rows.pop()?.join("") !== "") {
    throw new Error("The last line of the CSV has no line end.");
  }
  return rows;
};

const parseLines = (text: string): readonly unknown[] =>
  text
    .split("\n")
    .slice(0, -1)
    .map((line): unknown => JSON.parse(line));

/** Adds a donation of each amount, the first the newest. */
const donate = async (
  db: DatabasePool,
  accountId: string,
  donations: readonly { readonly cents: number; readonly metadata?: string }[],
): Promise<void> => {
  for (const [index, { cents, metadata = "{}" }] of donations.entries()) {
    await db.query(sql.typeAlias("void")`
      INSERT INTO donation (
        id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, created_at, attribution,
        metadata
      )
      VALUES (
        gen_random_uuid(), ${accountId}, 'live', ${cents}, NULL, 'n1', 'catalogue', '@charity', now() - ${index} * interval '1 hour',
        '', ${metadata}::jsonb
      )
    `);
  }
  await insertDonationTotals(db, accountId);
};

test("trees are exported as NDJSON and CSV with the rows of the JSON list, across pages", async (t) => {
  const { url, call, id, key, list } = await startExports(t);
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, attribution)
    SELECT gen_random_uuid(), ${id}, 'live', 'tree', n, now() - n * interval '1 second', 'a' || n
    FROM generate_series(1, 5200) AS n
  `);
  const listed = registrationsIn((await call("GET", "/plant/trees", { key })).body, "tree");

  const ndjson = await list("/plant/trees", NDJSON);
  t.is(ndjson.headers.get("content-type"), "application/x-ndjson; charset=utf-8");
  t.is(ndjson.headers.get("content-disposition"), 'attachment; filename="trees.ndjson"');
  t.deepEqual(parseLines(ndjson.text), listed);

  const csv = await list("/plant/trees", CSV);
  t.is(csv.headers.get("content-type"), "text/csv; charset=utf-8; header=present");
  t.is(csv.headers.get("content-disposition"), 'attachment; filename="trees.csv"');
  const excel = await fetch(`${url}/plant/trees`, {
    headers: { Authorization: key, Accept: "application/vnd.ms-excel" },
  });
  t.is(excel.headers.get("content-type"), "text/csv; charset=utf-8; header=present");
  t.is(excel.headers.get("content-disposition"), 'attachment; filename="trees.csv"');
  t.is(Buffer.from(await excel.arrayBuffer()).toString(), `\uFEFF${csv.text}`);

  const [head = [], ...rows] = parseCsv(csv.text);
  t.deepEqual(head, Object.keys(listed[0] ?? {}));
  t.is(rows.length, 5200);
  t.deepEqual(
    rows.map((row) => row[head.indexOf("id")]),
    listed.map((each) => each.id),
  );
});

test("any text survives CSV, but for an apostrophe before what a spreadsheet would run", async (t) => {
  const { call, key, list } = await startExports(t);
  const texts = [
    'say "hi", then\r\ngo',
    "\u0001\u0002\u001E",
    "träd 🌳",
    " =1",
    "5-3",
    "a; b;",
    "a;5-3",
  ];
  // A semicolon, and in some programs a tab, begins a cell; a quote within a cell quotes nothing. JSON escapes the others.
  const formulas: readonly (readonly [given: string, text: string, inJson?: string])[] = [
    ["=1+1", "'=1+1"],
    ["+1", "'+1"],
    ["-1", "'-1"],
    ["@SUM(A1)", "'@SUM(A1)"],
    ["＝1+1", "'＝1+1"],
    ["＋1", "'＋1"],
    ["－1", "'－1"],
    ["＠SUM(A1)", "'＠SUM(A1)"],
    ["x; ＝1+1", "x;' ＝1+1", "x;' ＝1+1"],
    ["\tx", "'\tx"],
    ["\rx", "'\rx"],
    ["\nx", "'\nx"],
    ["x;=1+cmd|' /C calc'!A0;", "x;'=1+cmd|' /C calc'!A0;", "x;'=1+cmd|' /C calc'!A0;"],
    ["x;  +1;;-1, y", "x;'  +1;;'-1, y", "x;'  +1;;'-1, y"],
    ['x; "@SUM(A1)"', 'x;\' "@SUM(A1)"'],
    ["x\t=1\r\n=1; \t-1", "x\t'=1\r\n'=1; \t'-1"],
    ["\n=1", "'\n'=1"],
  ];
  const attributions = [...texts, ...formulas.map(([given]) => given)];
  for (const attribution of attributions.toReversed()) {
    const metadata = { "=note": attribution };
    await call("POST", "/plant/trees", { key, body: { count: 1, attribution, metadata } });
  }

  const { text } = await list("/plant/trees", CSV);

  const [head = [], ...rows] = parseCsv(text);
  const column = (name: string) => rows.map((row) => row[head.indexOf(name)]);
  t.deepEqual(column("attribution"), [...texts, ...formulas.map(([, inCsv]) => inCsv)]);
  const notes = [...texts, ...formulas.map(([given, , inJson]) => inJson ?? given)];
  t.deepEqual(
    column("metadata").map((json): unknown => JSON.parse(json ?? "")),
    notes.map((note) => ({ "=note": note })),
  );
  t.deepEqual(new Set(column("refunded")), new Set(["false"]));
});

test.serial("HEAD reads no list that is also a file", async (t) => {
  const { url, key } = await startApiOf(t);
  await t.context.db.transaction(async (locker) => {
    await locker.query(sql.typeAlias("void")`SET LOCAL idle_in_transaction_session_timeout = 0`);
    await locker.query(sql.typeAlias("void")`LOCK TABLE registration, donation, donor`);
    for (const path of ["/plant/trees", "/usage", "/charities/donations", "/stats?kind=tree"]) {
      t.is((await fetch(url + path, { method: "HEAD" })).status, 403, path);
      for (const accept of ["application/json", CSV]) {
        const { status, headers } = await fetch(url + path, {
          method: "HEAD",
          headers: { Authorization: key, accept },
        });
        t.is(status, 200, path);
        t.true(headers.get("content-type")?.startsWith(accept), path);
      }
    }
  });
});

test("filters and pages select what is exported", async (t) => {
  const { call, key, list } = await startExports(t, { publicBaseUrl: "https://impact.example" });
  for (const attribution of ["a", "b", "a", "a"]) {
    await call("POST", "/plant/trees", { key, body: { count: 1, attribution } });
  }
  const path = "/plant/trees?attribution_key=a&first=2";

  const first = await list(path, CSV);

  t.is(parseCsv(first.text).length, 3);
  const [, next = ""] = /^<https:\/\/impact\.example([^>]+)>; rel="next"$/u.exec(
    first.headers.get("link") ?? "",
  ) ?? [""];
  const second = await list(next, CSV);
  t.is(parseCsv(second.text).length, 2);
  t.false(second.headers.has("link"));
  const none = await list("/plant/trees?attribution_key=c", CSV);
  t.is(parseCsv(none.text).length, 1, "only the names");
  t.like(await list("/plant/trees?attribution_key=c", NDJSON), { status: 200, text: "" });
});

test("a list is JSON unless the client names another format", async (t) => {
  const { list } = await startExports(t);
  for (const accept of [
    "*/*",
    "text/*",
    "text/html, */*;q=0.8",
    "text/csv;q=0, x",
    "text/csv;q=0.5, application/json",
    "nonsense",
    "",
  ]) {
    const { status, headers, text } = await list("/plant/trees", accept);
    t.is(status, 200, accept);
    t.is(headers.get("content-type"), "application/json; charset=utf-8", accept);
    t.false(headers.has("content-disposition"), accept);
    t.is(text, '{"total_planted_trees":0,"total_planted_trees_month":0,"tree_details":[]}', accept);
  }
});

test("errors of exports are JSON and no files", async (t) => {
  const { list } = await startExports(t);

  for (const query of ["created_at=yesterday", "after=nothing", "after=nothing&first=1"]) {
    const { status, headers, text } = await list(`/plant/trees?${query}`, CSV);
    t.is(status, 400);
    t.is(headers.get("content-type"), "application/json; charset=utf-8");
    t.false(headers.has("content-disposition"));
    t.regex(text, /^\{"error":/u);
  }
});

test("an error after the first rows of an export is no file", async (t) => {
  const { id, list } = await startExports(t);
  // The bottles follow the trees on a page of their own. Its date cannot be presented.
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at)
    VALUES
      (gen_random_uuid(), ${id}, 'live', 'tree', 1, now()),
      (gen_random_uuid(), ${id}, 'live', 'bottle', 1, '294276-01-01')
  `);

  for (const accept of [CSV, NDJSON]) {
    const failed = await list("/usage", accept);

    t.like(failed, { status: 500, text: '{"error":"internal server error"}' });
    t.is(failed.headers.get("content-type"), "application/json; charset=utf-8");
    t.false(failed.headers.has("content-disposition"));
  }
});

test("the billing statuses are exported with the bounds of their periods in columns", async (t) => {
  const { url, call, apiKeyTest: key } = await startApiOf(t);
  await call("POST", "/plant/trees", { key, body: { count: 3 } });

  const { text } = await download(`${url}/usage`, CSV, { Authorization: key });

  const [head, row = []] = parseCsv(text);
  t.deepEqual(head?.slice(6, 8), ["period_start", "period_end"]);
  t.is(row[2], "pending");
  t.regex(row[7] ?? "", /^\d{4}-\d{2}-01T00:00:00\.000Z$/u);
});

test("donations are exported whole, or as the page that is asked for", async (t) => {
  const { call, id, key, list } = await startExports(t);
  const large = JSON.stringify({ text: "x".repeat(15_000) });
  const gifts = Array.from({ length: 60 }, (_, index) => ({ cents: 100 + index, metadata: large }));
  await donate(t.context.db, id, gifts);
  const { body } = await call("GET", "/charities/donations?page_size=100", { key });

  const whole = await list("/charities/donations", NDJSON);
  t.deepEqual(parseLines(whole.text), rowsIn(body, "donations"));
  const page = await list("/charities/donations?page=2&page_size=25", CSV);
  const [head = [], ...rows] = parseCsv(page.text);
  t.is(rows.length, 25);
  t.is(rows[0]?.[head.indexOf("amount_cents")], "125");
  t.is(rows[0]?.[head.indexOf("charity_name")], "'@charity");
  t.is(rows[0]?.[head.indexOf("idempotency_key")], "");
});

test("a store's records, donations and ledger are exported whole, or up to a limit", async (t) => {
  const stocked = { balanceCents: 100_000 };
  const { db, url, get, post, store } = await startStoreApiOf(t, { store: stocked });
  for (let order = 1; order <= 30; order += 1) {
    await post("/app/api/plant", store.live, { trees: 1, order_id: `#${order}` });
  }
  await post("/app/api/plastic", store.live, { bottles: 2 });
  await donate(db, store.id, [{ cents: 100 }, { cents: 200 }]);
  const listed = async (path: string, name: string) =>
    rowsIn((await get(`${path}?limit=100`, store.live)).body, name);

  for (const [path, name, file] of [
    ["/app/api/plant", "trees", "trees"],
    ["/app/api/plastic", "plastics", "plastics"],
    ["/app/api/charity/donations", "donations", "donations"],
    ["/app/api/balance", "entries", "balance"],
  ] as const) {
    const rows = await listed(path, name);
    const ndjson = await download(url + path, NDJSON, store.live);
    t.deepEqual(parseLines(ndjson.text), rows, path);
    t.is(ndjson.headers.get("content-disposition"), `attachment; filename="${file}.ndjson"`);
    const csv = await download(url + path, CSV, store.live);
    t.is(parseCsv(csv.text).length, rows.length + 1);
    const limited = await download(`${url}${path}?limit=1`, CSV, store.live);
    t.is(parseCsv(limited.text).length, 2);
  }
});

test("an export waits for its turn among the lists", async (t) => {
  const listGate = new Gate({ places: 2 });
  const { id, list } = await startExports(t, { listGate });
  const gate = Promise.withResolvers<null>();
  const held = listGate.run(accountModeKey({ accountId: id, mode: "live" }), () => gate.promise);

  const exports = ["/plant/trees", "/charities/donations", "/usage"].map((path) => list(path, CSV));
  await eventually(() => listGate.waitingCount() > 0);
  gate.resolve(null);
  await held;

  const statuses = (await Promise.all(exports)).map(({ status }) => status);
  t.deepEqual(statuses, [200, 200, 200]);
});

test("the API description has the other formats", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const { paths } = await readDescription(url);
  const file = { schema: { type: "string" } };
  for (const path of ["/plant/trees", "/charities/donations", "/usage", "/stats"]) {
    const response = paths[path]?.["get"]?.responses["200"];
    t.like(response, { content: { [CSV]: file, [NDJSON]: file } }, path);
  }
});
