import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createImpactClient } from "../../../clients/typescript/src/index.ts";
import { sql } from "../../../db/sql.ts";
import { idIn, registrationsIn } from "../../api/contract.ts";
import { rawRequest } from "../../api/http/rawRequest.ts";
import { startApiOf } from "../../api/startStandaloneApi.ts";
import type { ApiResponse } from "../../api/startStandaloneApi.ts";
import { fillTrees } from "./listSetup.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { lockTable } from "../../support/lockWaits.ts";
import { eventually } from "../../support/programs.ts";

const test = testWithDatabase();

const BASE = "https://impact.example/api";

/** Adds trees, three in each second; every hundredth has the campaign "rare". */
const fill = async (db: DatabasePool, accountId: string, rows: number): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, metadata)
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 'tree', 1,
      timestamptz '2026-03-01' + (n / 3) * interval '1 second' + interval '1 microsecond' * (n % 2),
      CASE WHEN n % 100 = 0 THEN '{"campaign":"rare"}' ELSE '{}' END::jsonb
    FROM generate_series(1, ${rows}) AS n
  `);
};

/** Returns the path and query of the link to the next page, or null. */
const nextOf = ({ headers }: ApiResponse): string | null => {
  const link = headers.get("link");
  if (link === null) {
    return null;
  }
  const [, url = ""] = /^<(?<url>[^>]+)>; rel="next"$/u.exec(link) ?? [];
  if (!url.startsWith(`${BASE}/`)) {
    throw new Error(`The link is not on this service: ${link}`);
  }
  return url.slice(BASE.length);
};

/** Serves an organization with trees. */
const openPages = async (
  t: DatabaseTest,
  rows: number,
  options: { readonly pageSearchMs?: number } = {},
) => {
  const api = await startApiOf(t, { publicBaseUrl: BASE, ...options });
  await fill(t.context.db, api.id, rows);
  return {
    ...api,
    /** Follows the links from a page to the last one. */
    readPages: async (first: string) => {
      const pages: ApiResponse[] = [];
      const followed = new Set<string>();
      let path: string | null = first;
      while (path !== null) {
        if (followed.has(path)) {
          throw new Error(`A link leads back to ${path}.`);
        }
        followed.add(path);
        const page: ApiResponse = await api.get(path);
        pages.push(page);
        path = nextOf(page);
      }
      return pages;
    },
  };
};

const idsOf = ({ body }: ApiResponse): readonly string[] =>
  registrationsIn(body, "tree").map(({ id }) => id);

const lengthsOf = (pages: readonly ApiResponse[]): readonly number[] =>
  pages.map((page) => idsOf(page).length);

const usageOf = ({ body }: ApiResponse) =>
  z.array(z.looseObject({ registration_id: z.string() })).parse(body["usage"]);

test("a link to the next page has the request's parameters as the client has encoded them", async (t) => {
  const { key, post, url } = await openPages(t, 0);
  const attribution = "(a) >\u{6a39}<";
  for (const count of [1, 2]) {
    await post("/plant/trees", { count, attribution });
  }
  const encoded = encodeURIComponent(attribution);

  const raw = encoded.replace("%3E", ">").replace("%3C", "<");
  const response = await rawRequest(
    url,
    `GET /plant/trees?first=1&attribution_key=${raw} HTTP/1.1\r\nHost: a\r\nAuthorization: ${key}\r\nConnection: close\r\n\r\n`,
  );
  const [, id = ""] = /"id":"(?<id>[^"]+)"/u.exec(response) ?? [];
  const link = `/plant/trees?first=1&attribution_key=${encoded}&after=${id}`;
  t.true(response.includes(`Link: <${BASE}${link}>; rel="next"`), response);
});

test("pages have every registration once, in the list's order, and the last has no link", async (t) => {
  const { get, readPages } = await openPages(t, 250);
  const whole = await get("/plant/trees");
  t.false(whole.headers.has("link"));

  const pages = await readPages("/plant/trees?first=100");

  t.deepEqual(lengthsOf(pages), [100, 100, 50]);
  t.deepEqual(pages.flatMap(idsOf), idsOf(whole));
  const [{ tree_details: _, ...totals } = {}] = pages.map(({ body }) => body);
  const { tree_details: __, ...wholeTotals } = whole.body;
  t.deepEqual(totals, wholeTotals);

  const exact = await get("/plant/trees?first=250");
  t.deepEqual(exact.body, whole.body);
  t.false(exact.headers.has("link"), "nothing follows");
});

test("the link keeps the filters, and a page of a metadata filter is full although few match", async (t) => {
  const { get, readPages } = await openPages(t, 6000);
  const metadata = encodeURIComponent('{"campaign":"rare"}');
  const filter = `metadata=${metadata}&created_at=2026-03-01&end_at=2026-03-01`;
  const whole = await get(`/plant/trees?${filter}`);

  const pages = await readPages(`/plant/trees?first=25&${filter}&_=1&_=2`);

  t.deepEqual(lengthsOf(pages), [25, 25, 10]);
  t.deepEqual(pages.flatMap(idsOf), idsOf(whole));
});

test("a page ends after a long search, with a link to where it ended, and the client's loop goes on", async (t) => {
  // Every search is too long after its first step, of 500 registrations.
  const { key, get, readPages, url } = await openPages(t, 1200, { pageSearchMs: 0 });
  const rare = `metadata=${encodeURIComponent('{"campaign":"rare"}')}`;
  const whole = await get(`/plant/trees?${rare}`);
  t.is(idsOf(whole).length, 12);

  const pages = await readPages(`/plant/trees?first=1000&${rare}`);
  t.deepEqual(lengthsOf(pages), [5, 5, 2]);
  t.deepEqual(pages.flatMap(idsOf), idsOf(whole));
  const none = `metadata=${encodeURIComponent('{"campaign":"none"}')}`;
  const empty = await readPages(`/plant/trees?first=1000&${none}`);
  t.deepEqual(empty.map(idsOf), [[], [], []]);

  for (const [accept, head] of [
    ["text/csv", /^id,[^\n]*\r\n$/u],
    ["application/x-ndjson", /^$/u],
  ] as const) {
    const file = await fetch(`${url}/plant/trees?first=1000&${none}`, {
      headers: { Authorization: key, accept },
    });
    t.regex(await file.text(), head);
    t.regex(file.headers.get("link") ?? "", /&after=[-0-9a-f]{36}>; rel="next"$/u);
  }

  const impact = createImpactClient({ baseUrl: url, apiKey: key });
  const read: string[] = [];
  for await (const tree of impact.listTrees({ metadata: '{"campaign":"rare"}' })) {
    read.push(tree.id);
  }
  t.deepEqual(read, idsOf(whole));
  let statuses = 0;
  for await (const usage of impact.listUsage()) {
    statuses += usage.count;
  }
  t.is(statuses, 1200);
});

test("a page is cut before its records are too large to hold, and none is lost", async (t) => {
  const { id, readPages } = await openPages(t, 0);
  await fillTrees(t.context.db, id, 30, { a: "x".repeat(64_000) });

  const pages = await readPages("/plant/trees?first=1000");

  t.deepEqual(lengthsOf(pages), [12, 12, 6]);
  t.is(new Set(pages.flatMap(idsOf)).size, 30);
});

test("after without first returns all that follows, and a new registration moves no page", async (t) => {
  const { get, post } = await openPages(t, 20);
  const first = await get("/plant/trees?first=5");
  const before = idsOf(await get("/plant/trees"));
  await post("/plant/trees", { count: 1 });

  const rest = await get(`/plant/trees?after=${idsOf(first).at(-1)}`);

  t.deepEqual([...idsOf(first), ...idsOf(rest)], before);
  t.false(rest.headers.has("link"));
});

test("an id of another list, account or system is no place to start", async (t) => {
  const { call, key, apiKeyTest, post } = await startApiOf(t);
  const bottle = await post("/rescue/plastic_bottles", { count: 1 });
  const tree = await post("/plant/trees", { count: 1 });

  for (const [reader, id] of [
    [key, idIn(bottle.body, "bottle")],
    [apiKeyTest, idIn(tree.body, "tree")],
    [key, "no-such-id"],
  ] as const) {
    for (const length of ["", "&first=10"]) {
      const response = await call("GET", `/plant/trees?after=${id}${length}`, { key: reader });
      t.is(response.status, 400);
      t.deepEqual(response.body, { error: "after: is not the id of a registration in this list" });
      t.false(response.headers.has("link"));
    }
  }
});

test("first is an integer of at least 1, and more than 1,000 is 1,000", async (t) => {
  const { get } = await openPages(t, 1001);

  for (const limit of ["0", "-1", "1.5", "ten", "1e3"]) {
    const { status, body } = await get(`/plant/trees?first=${limit}`);
    t.is(status, 400);
    t.deepEqual(body, { error: "first: must be an integer of at least 1" });
  }
  t.is(idsOf(await get("/plant/trees?first=5000")).length, 1000);
  t.is(idsOf(await get("/plant/trees?first=")).length, 1001);
});

test("billing statuses have pages across trees and bottles, and end where both were imported with the same id", async (t) => {
  const { db } = t.context;
  const { id: accountId, key, get, post, readPages, url } = await openPages(t, 0);
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, imported_id)
    SELECT gen_random_uuid(), ${accountId}, 'live', kind, 1, now() - number * interval '1 day', 'old-' || number
    FROM generate_series(1, 3) AS number
    CROSS JOIN (VALUES ('tree'), ('bottle')) AS kinds (kind)
  `);
  const whole = usageOf(await get("/usage"));
  t.is(whole.length, 6);

  for (const [limit, lengths] of [
    [1, "1 1 1 1 1 1"],
    [2, "2 2 2"],
    [4, "4 2"],
  ] as const) {
    const pages = (await readPages(`/usage?limit=${limit}`)).map(usageOf);
    t.deepEqual(pages.flat(), whole);
    t.is(pages.map(({ length }) => length).join(" "), lengths);
  }
  const impact = createImpactClient({ baseUrl: url, apiKey: key });
  const read: unknown[] = [];
  for await (const usage of impact.listUsage({ limit: 1 })) {
    read.push(usage);
    if (read.length > whole.length) {
      break;
    }
  }
  t.deepEqual(read, whole);
  const tree = idIn((await post("/plant/trees", { count: 1 })).body, "tree");
  t.is((await get(`/usage?kind=bottle&starting_after=${tree}`)).status, 400);
});

test.serial("an error after the rows of a page has no link", async (t) => {
  const { get } = await openPages(t, 2);
  const lock = await lockTable(t, t.context.databaseUrl, "impact_total");

  const page = get("/plant/trees?first=1");
  // The totals are read after the rows.
  await eventually(async () => (await lock.cancelWaiting()) === 1);

  const { status, headers } = await page;
  t.is(status, 500);
  t.false(headers.has("link"));
  await lock.release();
});
