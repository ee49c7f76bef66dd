import { findCertificates, readCertified } from "../../modules/dashboard/certificates.sql.ts";
import { sql } from "../../db/sql.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { impactOf } from "../cli/runImpact.ts";
import { openPageCount } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestStore, startStoreApiOf } from "../stores/startStoreApi.ts";
import { z } from "zod";
import {
  getCertificateToken,
  getOrderCertificateToken,
} from "../../modules/dashboard/manageCertificates.ts";
import { systemClock } from "../../runtime/clock.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import { openDashboard, readPage, verifiedFact } from "./dashboardScene.ts";
import type { DatabaseTest } from "../support/database.ts";
import { linesOf, setUpImport } from "../history/importScene.ts";

const test = testWithDatabase();

const TABLES = ["registration", "donation"];
const MAXIMUM_PAGES = 100;

test.serial("the first records of a huge order are read in a few pages", async (t) => {
  const { filler, db, readAtMost } = await openPageCount(t, TABLES);
  const { id: accountId } = await createTestStore(db);
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
  const deps = { db, clock: systemClock };
  const read = () =>
    t.throwsAsync(getOrderCertificateToken(deps, { accountId, mode: "live" }, "0"), {
      message: /^order_id: has more than 100 records/u,
    });

  await readAtMost(MAXIMUM_PAGES, read, "without statistics");
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) registration, donation`);
  await readAtMost(MAXIMUM_PAGES, read, "with statistics");
});

test("the URL of an order stays the same when an older record of it is imported", async (t) => {
  const { db } = t.context;
  // What a ledger has is no record of an order.
  const { store, ...api } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const readUrl = async () => {
    const path = "/app/api/order_certificate_url?order_id=1001";
    return String((await api.get(path, store.live)).body["certificate_url"]);
  };
  await api.post("/app/api/plastic", store.live, { bottles: 3, order_id: "#1001" });
  const url = await readUrl();

  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, order_id, imported_id)
    VALUES (gen_random_uuid(), ${store.id}, 'live', 'tree', 2, now() - interval '7 days', '1001', 'old-1')
  `);
  t.is(await readUrl(), url);

  await api.post("/app/api/plant", store.live, { trees: 1, order_id: "1001" });
  t.is(await readUrl(), url);
  const token = url.split("/").at(-1) ?? "";
  const certificate = (await findCertificates(db, [token])).get(token) ?? t.fail();
  const kinds = (await readCertified(db, certificate))?.items.map(({ kind }) => kind);
  t.deepEqual(kinds, ["tree", "bottle", "tree"]);
});

test("an order has one certificate of all its records, also after records are added", async (t) => {
  const { db } = t.context;
  const { url } = await startStandaloneApi(t, { db });
  const { store, ...api } = await startStoreApiOf(t, { store: { domain: "orders.example" } });
  const write = (path: string, body: object): Promise<unknown> => {
    const order = { customer_name: "Ann Lee", order_id: "#1001" };
    return api.post(`/app/api/${path}`, store.test, { ...order, ...body });
  };
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
    state: "registered",
    test: true,
    items: [
      { type: "trees", registered: 2 },
      { type: "bottles", registered: 3 },
      { type: "donation", amount_cents: 500 },
    ],
  });
  const html = await readPage(first);
  t.regex(
    html,
    /2<\/span> <span class="what">trees, 3 ocean-bound bottles, and a donation of \$5\.00 to Oceana registered/u,
  );
  t.notRegex(html + certificate, /Ann|1001/u);
  for (const unknown of ["1003", "%23"]) {
    const path = `/app/api/order_certificate_url?order_id=${unknown}`;
    const body = { error: "failed to find order" };
    t.like(await api.get(path, store.test), { status: 404, body });
  }
  await write("refund", { type: "tree", quantity: 2 });
  await write("refund", { type: "plastic", quantity: 3 });
  await write("refund", { type: "donation", quantity: 1 });
  const { url: other } = await startStandaloneApi(t, { db });
  t.like(await (await fetch(`${first.replace(url, other)}.json`)).json(), { state: "refunded" });

  await impactOf(t).ok("certificate", "revoke", first);
  t.not(await urlOf("1001"), first);
});

const certificateUrl = z.object({ certificate_url: z.url() });

const UNPLANTED = { planted: 0, planted_and_verified: 0, verified_at: null, project: null };

const setUp = async (t: DatabaseTest) => {
  const scene = await openDashboard(t, { name: `North <b>"Sea"</b>` });
  const key = scene.organization.apiKeyProd;
  /** Serves the interface with empty caches. */
  const serve = async () => {
    const api = await scene.serve();
    const urlOf = async (id: string): Promise<string> => {
      const { body } = await api.call("GET", `/certificate_url?id=${id}`, { key });
      return certificateUrl.parse(body).certificate_url;
    };
    const read = async (id: string): Promise<unknown> =>
      (await fetch(`${await urlOf(id)}.json`)).json();
    return { ...api, urlOf, read };
  };
  return { ...scene, serve };
};

test.serial("a certificate shows what is registered and what is verified", async (t) => {
  const { register, plant, serve } = await setUp(t);
  const id = await register(25);
  const before = await serve();
  t.like(await before.read(id), {
    name: `North <b>"Sea"</b>`,
    state: "registered",
    test: false,
    simulated: true,
    items: [{ type: "trees", registered: 25, ...UNPLANTED }],
  });
  await plant();
  const after = await serve();
  t.like(await after.read(id), {
    state: "planted_and_verified",
    simulated: true,
    items: [{ registered: 25, planted_and_verified: 25 }],
  });
  const page = await fetch(await after.urlOf(id));
  t.is(page.headers.get("X-Robots-Tag"), "noindex, nofollow");
  t.regex(page.headers.get("Content-Security-Policy") ?? "", /^default-src 'none'/u);
  t.is(page.headers.get("Access-Control-Allow-Origin"), null);
  const html = (await page.text()).replaceAll(/\s+/gu, " ");
  t.regex(html, /All 25 planted and verified in a simulation on/u);
  t.notRegex(html, /Proven|independently verified/u);
  t.regex(html, /<strong>Simulation\.<\/strong>/u);
  t.true(html.includes("North &lt;b&gt;&quot;Sea&quot;&lt;/b&gt;"));
  t.false(html.includes("spring"), "the attribution is the organization's own");
});

test.serial("the URL stays the same, and an unknown record has none", async (t) => {
  const { register, serve, organization } = await setUp(t);
  const id = await register(1);
  const { urlOf, call } = await serve();
  const urls = await Promise.all(Array.from({ length: 8 }, () => urlOf(id)));
  t.is(new Set(urls).size, 1);
  t.regex(urls[0] ?? "", /\/certificate\/[0-9a-f]{32}$/u);
  const refused = await call("GET", `/certificate_url?id=${id}`, { key: organization.apiKeyTest });
  t.like(refused, { status: 404, body: { error: "failed to find registration or donation" } });
});

test.serial("a revoked certificate does not exist, and the next URL is another one", async (t) => {
  const { register, serve } = await setUp(t);
  const id = await register(1);
  const { urlOf } = await serve();
  const url = await urlOf(id);
  await impactOf(t).ok("certificate", "revoke", url);
  await impactOf(t).fails(3, "certificate", "revoke", url);
  t.is((await fetch(url)).status, 404);
  t.is((await fetch(`${url}.json`)).status, 404);
  const next = await urlOf(id);
  t.not(next, url);
  t.is((await fetch(next)).status, 200);
  t.is((await fetch(`${next}.json`)).headers.get("Access-Control-Allow-Origin"), "*");
});

test.serial("kind selects one of a store's records that were imported with one id", async (t) => {
  const { db } = t.context;
  const { url } = await startStandaloneApi(t, { db });
  const { store, ...api } = await startStoreApiOf(t);
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, imported_id, unit_price_cents)
    SELECT gen_random_uuid(), ${store.id}, 'test', kind, 1, now(), 'old-1', 0
    FROM unnest(ARRAY['tree', 'bottle']) AS kind
  `);
  await db.query(sql.typeAlias("void")`
    INSERT INTO donation
      (id, account_id, mode, created_at, imported_id, amount_cents, nonprofit_id, charity_provider, charity_name)
    VALUES (gen_random_uuid(), ${store.id}, 'test', now(), 'old-1', 100, 'charity', 'catalogue', 'Charity')
  `);

  for (const [kind, type] of [
    ["", "trees"],
    ["&kind=tree", "trees"],
    ["&kind=bottle", "bottles"],
    ["&kind=donation", "donation"],
  ] as const) {
    const { status, body } = await api.get(`/app/api/certificate_url?id=old-1${kind}`, store.test);
    t.is(status, 200, kind);
    const page = certificateUrl.parse(body).certificate_url.replace("https://impact.example", url);
    t.like(await (await fetch(`${page}.json`)).json(), { items: [{ type }] });
  }
  const other = await api.get("/app/api/certificate_url?id=old-1&kind=order", store.test);
  t.is(other.body["error"], "kind: must be one of tree, bottle, donation");
});

test.serial("page and certificate name who verified real trees, with the document", async (t) => {
  const scene = await openDashboard(t, { partner: "manual", timeline: "sessions" });
  const { deps, register, createAndPlace, firstOrder, organization } = scene;
  const id = await register(10);
  await createAndPlace();
  const verified = verifiedFact("2026-05-01T10:00:00.000Z");
  await recordPlantingFacts(deps, (await firstOrder()).id, [verified], "operator");

  const page = await readPage(scene.page);
  const share = "10 planted and verified, 100% of the registered trees.";
  t.true(page.includes(`${share} 10 verified by a third party.`));
  t.regex(page, /Green Audit.{1,40} 10 trees verified by a third party, last on May.1,.2026/u);
  t.true(page.includes('href="https://audit.example/7.pdf"'));
  const owner = { accountId: organization.id, mode: "live" } as const;
  const token = await getCertificateToken(deps, owner, id, null);
  const certificate = await fetch(`${scene.url}/certificate/${token}`);
  const policy = certificate.headers.get("Content-Security-Policy") ?? "";
  t.regex(policy, /; img-src 'self' https:\/\/photos\.example; /u);
  const text = await certificate.text();
  t.regex(text, /All 10 planted and verified by a third party on May.1,.2026\./u);
});

const setUpDonations = async (t: DatabaseTest) => {
  const { apiKeyProd, apiKeyTest, importText } = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db: t.context.db });
  /** Returns a donation's certificate, as JSON and as a page with single spaces. */
  const certificateOf = async (key: string, id: string) => {
    // Another server has an empty cache.
    const server = await startStandaloneApi(t, { db: t.context.db });
    const { body } = await server.call("GET", `/certificate_url?id=${id}`, { key });
    const url = String(body["certificate_url"]);
    return {
      json: z.looseObject({}).parse(await (await fetch(`${url}.json`)).json()),
      page: await readPage(url),
    };
  };
  return { apiKeyProd, apiKeyTest, importText, call, certificateOf };
};

const OCEANA = { amount_cents: 2550, ein: "51-0401308" };
const LOOKED_UP = /The charity was looked up when the donation was recorded\./u;

test.serial("a certificate names the charity looked up, and says what is refunded", async (t) => {
  const { apiKeyTest: key, call, certificateOf } = await setUpDonations(t);
  const item = { ...OCEANA, charity_name: "American Red Cross", attribution: "spring" };
  await call("POST", "/charities/subscribe", { key });
  const single = await call("POST", "/charities/donate", { key, body: item });
  t.like(single.body, { charity_name: "American Red Cross" });
  const batch = await call("POST", "/charities/donate/batch", { key, body: { items: [item] } });
  const ids = [...JSON.stringify([single.body, batch.body]).matchAll(/"donation_id":"([^"]+)"/gu)];
  t.is(ids.length, 2);
  for (const [, id = ""] of ids) {
    const { json, page } = await certificateOf(key, id);
    const charity = { name: "Oceana", ein: "51-0401308", looked_up: true };
    const items = [{ type: "donation", amount_cents: 2550, charity }];
    t.like(json, { state: "registered", test: true, items });
    t.regex(page, /\$25\.50<\/span> <span class="what">donation to Oceana registered/u);
    t.regex(page, /\$25\.50 to <bdi>Oceana<\/bdi> on/u);
    t.regex(page, LOOKED_UP);
    t.notRegex(page, /Red Cross|spring/u);
    t.is((await call("POST", "/refund/donations", { key, body: { id } })).status, 200);
    const refunded = await certificateOf(key, id);
    t.like(refunded.json, { state: "refunded" });
    t.regex(refunded.page, /no longer counts/u);
  }
});

test.serial("a blank name of a charity is the same as none", async (t) => {
  const { apiKeyTest: key, call } = await setUpDonations(t);
  const body = { ...OCEANA, charity_name: " \t" };
  t.like((await call("POST", "/charities/donate", { key, body })).body, { charity_name: "Oceana" });
});

test.serial("an imported donation's charity is unchecked; a refund here has a date", async (t) => {
  const { apiKeyProd: key, importText, call, certificateOf } = await setUpDonations(t);
  const charity_name = "Oceana, as the old system wrote it";
  const donation = { ...OCEANA, charity_name, created_at: "2024-01-15T10:00:00Z" };
  const lineOf = (id: string, refunded = false) => ({
    ...donation,
    kind: "donation",
    id,
    refunded,
  });
  const run = await importText(linesOf(lineOf("before", true), lineOf("later"), lineOf("here")));
  t.is(run.exitCode, 0, run.stderr);
  const { json: imported, page: unproven } = await certificateOf(key, "here");
  t.like(imported, { items: [{ charity: { name: charity_name, looked_up: false } }] });
  t.regex(unproven, /An earlier system recorded the donation and named the charity\./u);
  t.notRegex(unproven, LOOKED_UP);

  await importText(linesOf(lineOf("later", true)));
  t.is((await call("POST", "/refund/donations", { key, body: { id: "here" } })).status, 200);
  for (const id of ["before", "later"]) {
    const { json, page } = await certificateOf(key, id);
    t.like(json, { state: "refunded" });
    t.regex(page, /<dt>Refunded<\/dt> <dd>Refunded\.<\/dd>/u);
    t.regex(page, /This certificate no longer counts\./u);
  }
  const { page } = await certificateOf(key, "here");
  t.regex(page, /<dd>On \w{3}.\d+,.\d{4}\.<\/dd>/u);
});
