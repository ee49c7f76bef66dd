import { findCertified, listOrderRecords } from "../../modules/dashboard/certificates.sql.ts";
import { sql } from "../../db/sql.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { impactOf } from "../cli/runImpact.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";

const test = testWithDatabase();

const TABLES = ["registration", "donation"];
const MAXIMUM_PAGES = 100;

test("the first records of a huge order are read in a few pages, with and without statistics", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const { id: accountId } = await createTestStore(db);
  await stopAutovacuum(filler, TABLES);
  const columns = sql.fragment`id, account_id, mode, created_at, order_id`;
  const values = sql.fragment`
    gen_random_uuid(), ${accountId}, 'live', '2026-11-01'::timestamptz - number * interval '1 second', '#0'
  `;
  const numbers = sql.fragment`generate_series(1, 10000) AS number`;
  await filler.query(sql.typeAlias("void")`
    INSERT INTO registration (${columns}, kind, count)
    SELECT ${values}, kind, 1 FROM ${numbers}, unnest(ARRAY['tree', 'bottle']) AS kind
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donation (${columns}, amount_cents, nonprofit_id, charity_provider, charity_name)
    SELECT ${values}, 100, 'charity', 'catalogue', 'Charity' FROM ${numbers}
  `);
  const countPages = await createPageCounter(filler, db, TABLES);
  const read = async (statistics: string): Promise<void> => {
    let records: Awaited<ReturnType<typeof listOrderRecords>> = [];
    const pages = await countPages(async (single) => {
      records = await listOrderRecords(single, { accountId, mode: "live" }, "0");
    });
    t.true(pages <= MAXIMUM_PAGES, `${statistics}: ${pages} pages`);
    t.is(new Set(records).size, 101);
  };

  await read("without statistics");
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) registration, donation`);
  await read("with statistics");
});

test("the URL of an order stays the same when an older record of it is imported", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db);
  const api = await startStoreApi(t, { db });
  const readUrl = async () => {
    const path = "/app/api/order_certificate_url?order_id=1001";
    return String((await api.get(path, store.test)).body["certificate_url"]);
  };
  await api.post("/app/api/plastic", store.test, { bottles: 3, order_id: "#1001" });
  const url = await readUrl();

  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, order_id)
    VALUES (gen_random_uuid(), ${store.id}, 'test', 'tree', 2, now() - interval '7 days', '1001')
  `);
  t.is(await readUrl(), url);

  await api.post("/app/api/plant", store.test, { trees: 1, order_id: "1001" });
  t.is(await readUrl(), url);
  const token = url.split("/").at(-1) ?? "";
  const items = (await findCertified(db, [token])).get(token)?.items ?? [];
  t.deepEqual(
    items.map(({ kind }) => kind),
    ["tree", "bottle", "tree"],
  );
});

test("an order has one certificate of all its records, also after records are added", async (t) => {
  const { db } = t.context;
  const { url } = await startStandaloneApi(t, { db });
  const store = await createTestStore(db, { domain: "orders.example" });
  const api = await startStoreApi(t, { db });
  const write = (path: string, body: object): Promise<unknown> =>
    api.post(`/app/api/${path}`, store.test, {
      customer_name: "Ann Lee",
      order_id: "#1001",
      ...body,
    });
  const urlOf = async (orderId: string): Promise<string> => {
    const query = new URLSearchParams({ order_id: orderId }).toString();
    const { body } = await api.get(`/app/api/order_certificate_url?${query}`, store.test);
    return String(body["certificate_url"]).replace("https://impact.example", url);
  };
  await write("plant", { trees: 2 });
  const first = await urlOf("1001");
  await write("plastic", { bottles: 3 });
  await write("charity/donate", { charity_id: "510401308", amount_dollars: 5 });
  await write("plant", { trees: 9, order_id: "#1002" });
  t.is(await urlOf("#1001"), first);
  t.not(await urlOf("1002"), first);
  const certificate = await (await fetch(`${first}.json`)).text();
  t.like(JSON.parse(certificate), {
    type: "order",
    state: "registered",
    test: true,
    items: [
      { type: "trees", registered: 2 },
      { type: "bottles", registered: 3 },
      { type: "donation", amount_cents: 500 },
    ],
  });
  const html = (await (await fetch(first)).text()).replaceAll(/\s+/gu, " ");
  t.regex(
    html,
    /2<\/span> <span class="what">trees, 3 ocean-bound bottles, and a donation of \$5\.00 to Oceana registered/u,
  );
  t.notRegex(html + certificate, /Ann|1001/u);
  for (const unknown of ["1003", "%23"]) {
    const path = `/app/api/order_certificate_url?order_id=${unknown}`;
    t.like(await api.get(path, store.test), {
      status: 404,
      body: { error: "failed to find order" },
    });
  }
  await write("refund", { type: "tree", quantity: 2 });
  await write("refund", { type: "plastic", quantity: 3 });
  await write("refund", { type: "donation", quantity: 1 });
  const { url: other } = await startStandaloneApi(t, { db });
  t.like(await (await fetch(`${first.replace(url, other)}.json`)).json(), { state: "refunded" });

  t.is((await impactOf(t)("certificate", "revoke", first)).exitCode, 0);
  t.not(await urlOf("1001"), first);
});
