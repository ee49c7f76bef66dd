import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { impactOf } from "../cli/runImpact.ts";
import { getCertificateToken } from "../../modules/dashboard/manageCertificates.ts";
import type { PlantingFact } from "../../modules/planting/fact.rules.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import { openDashboard } from "./dashboardScene.ts";
import { setUpPlanting } from "../planting/setUpPlanting.ts";
import { createTestStore, rowsIn, startStoreApi } from "../stores/startStoreApi.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { STAGE_MS } from "../support/planting.ts";

const test = testWithDatabase();

const certificateUrl = z.object({ certificate_url: z.url() });

const setUp = async (
  t: ExecutionContext<DatabaseContext>,
  partner: "simulated" | "manual" = "simulated",
) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db, { name: `North <b>"Sea"</b>`, partner });
  /** Serves both interfaces with empty caches. */
  const serve = async () => {
    const { clock, deps, organization } = setup;
    const api = await startStandaloneApi(t, { db, clock, planting: deps.planting });
    const urlOf = async (id: string, mode: "live" | "test" = "live"): Promise<string> => {
      const key = mode === "live" ? organization.apiKeyProd : organization.apiKeyTest;
      const { body } = await api.call("GET", `/certificate_url?id=${id}`, { key });
      return certificateUrl.parse(body).certificate_url;
    };
    return {
      ...api,
      urlOf,
      read: async (id: string, mode?: "live" | "test"): Promise<unknown> =>
        (await fetch(`${await urlOf(id, mode)}.json`)).json(),
    };
  };
  return { ...setup, serve };
};

test.serial("a certificate shows what is registered and what is verified", async (t) => {
  const { register, createOrders, place, pass, serve } = await setUp(t);
  const id = await register(25);
  const before = await serve();
  t.like(await before.read(id), {
    name: `North <b>"Sea"</b>`,
    type: "trees",
    state: "registered",
    test: false,
    simulated: true,
    registered: 25,
    planted: 0,
    planted_and_verified: 0,
    verified_at: null,
    project: null,
  });
  await createOrders();
  await place();
  await pass(3 * STAGE_MS);
  const after = await serve();
  t.like(await after.read(id), {
    state: "planted_and_verified",
    simulated: true,
    registered: 25,
    planted_and_verified: 25,
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

test.serial(
  "trees without a planting order are marked if the partner that will get them is simulated",
  async (t) => {
    const { db } = t.context;
    const notice = /<strong>Simulation\.<\/strong>/u;
    const readCertificate = async (partner: "simulated" | "manual", isOrderedElsewhere = false) => {
      const setup = await setUp(t, partner);
      const id = await setup.register(1);
      await db.query(sql.typeAlias("void")`
        UPDATE registration
        SET planting_order_id = CASE WHEN ${!isOrderedElsewhere} THEN planting_order_id END
        WHERE id = ${id}
      `);
      const { read, urlOf } = await setup.serve();
      return { json: await read(id), html: await (await fetch(await urlOf(id))).text() };
    };
    const simulated = await readCertificate("simulated");
    t.like(simulated.json, { state: "registered", simulated: true, partner: null });
    t.regex(simulated.html, notice);
    for (const real of [
      await readCertificate("manual"),
      await readCertificate("simulated", true),
    ]) {
      t.like(real.json, { state: "registered", simulated: false });
      t.notRegex(real.html, notice);
    }
  },
);

test.serial("the URL stays the same, and no other account or mode gets one", async (t) => {
  const { register, serve, organization } = await setUp(t);
  const id = await register(1);
  const { urlOf, call } = await serve();
  const urls = await Promise.all(Array.from({ length: 8 }, () => urlOf(id)));
  t.is(new Set(urls).size, 1);
  t.regex(urls[0] ?? "", /\/certificate\/[0-9a-f]{32}$/u);
  const other = await createTestOrganization(t.context.db);
  for (const key of [other.apiKeyProd, organization.apiKeyTest]) {
    const refused = await call("GET", `/certificate_url?id=${id}`, { key });
    t.is(refused.status, 404);
    t.deepEqual(refused.body, { error: "failed to find registration or donation" });
  }
});

test.serial("a known certificate is returned without a write", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db, { domain: "reads.example" });
  const api = await startStoreApi(t, { db });
  await api.post("/app/api/plant", store.test, { trees: 1, order_id: "2001" });
  await api.post("/app/api/plastic", store.test, { bottles: 1, order_id: "2001" });
  const [tree] = rowsIn((await api.get("/app/api/plant", store.test)).body, "trees");
  const readUrls = async () => [
    (await api.get(`/app/api/certificate_url?id=${String(tree?.["id"])}`, store.test)).body,
    (await api.get("/app/api/order_certificate_url?order_id=2001", store.test)).body,
  ];
  /** Every write of a row, also one that changes nothing, gives it another transaction. */
  const readTransactions = () =>
    db.anyFirst(sql.type(z.strictObject({ id: z.string() }))`
      SELECT xmin::text || ' ' || xmax::text AS id FROM certificate WHERE account_id = ${store.id}
    `);
  const urls = await readUrls();
  const transactions = await readTransactions();
  t.is(transactions.length, 2);
  t.deepEqual(await readUrls(), urls);
  t.deepEqual(await readTransactions(), transactions);
});

test.serial("a refund shows on the certificate, and test data are marked", async (t) => {
  const { register, serve, organization, clock } = await setUp(t);
  const { db } = t.context;
  const id = await register(10);
  const refund = (count: number) =>
    refundRegistration(
      { db, clock, billing: createBilling({ db, stripe: null }) },
      { accountId: organization.id, mode: "live", kind: "tree" },
      { id, count, reason: null, idempotencyKey: null },
    );
  await refund(4);
  const partly = await serve();
  t.like(await partly.read(id), { state: "registered", registered: 10, refunded: 4 });
  const page = (await (await fetch(await partly.urlOf(id))).text()).replaceAll(/\s+/gu, " ");
  t.regex(page, /<span class="what">trees remain<\/span>/u);
  t.regex(page, /4 were refunded\. 6 remain\./u);
  await refund(6);
  const fully = await serve();
  t.like(await fully.read(id), { state: "refunded", registered: 10, refunded: 10 });
  const html = (await (await fetch(await fully.urlOf(id))).text()).replaceAll(/\s+/gu, " ");
  t.regex(html, /trees registered and refunded/u);
  t.regex(html, /This certificate no longer counts/u);

  const ofTest = await register(3, { mode: "test", kind: "bottle" });
  t.like(await fully.read(ofTest, "test"), { type: "bottles", test: true });
  t.regex(await (await fetch(await fully.urlOf(ofTest, "test"))).text(), /Test data\./u);
});

test.serial("a revoked certificate does not exist, and the next URL is another one", async (t) => {
  const { register, serve } = await setUp(t);
  const id = await register(1);
  const { urlOf } = await serve();
  const url = await urlOf(id);
  const impact = impactOf(t);
  t.is((await impact("certificate", "revoke", url)).exitCode, 0);
  t.is((await impact("certificate", "revoke", url)).exitCode, 3);
  t.is((await fetch(url)).status, 404);
  t.is((await fetch(`${url}.json`)).status, 404);
  const next = await urlOf(id);
  t.not(next, url);
  t.is((await fetch(next)).status, 200);
  t.is((await fetch(`${next}.json`)).headers.get("Access-Control-Allow-Origin"), "*");
});

test.serial("made-up certificates are not found", async (t) => {
  const { serve } = await setUp(t);
  const { url } = await serve();
  for (const token of ["a".repeat(32), "A".repeat(32), "x", "%00", "..%2f..", "A".repeat(3000)]) {
    t.is((await fetch(`${url}/certificate/${token}`)).status, 404, token);
    const json = await fetch(`${url}/certificate/${token}.json`);
    t.is(json.status, 404, token);
    t.is(json.headers.get("Access-Control-Allow-Origin"), "*", token);
  }
});

test.serial("a store's record has a certificate without its customer", async (t) => {
  const { serve } = await setUp(t);
  const { url } = await serve();
  const store = await createTestStore(t.context.db, { domain: "green.example" });
  const api = await startStoreApi(t, { db: t.context.db });
  const planted = await api.post("/app/api/plant", store.test, {
    trees: 2,
    customer_name: "Ann Lee",
    customer_email: "ann@example.com",
    order_id: "#1001",
  });
  const id = planted.headers.get("Record-Id") ?? "";
  const { status, body } = await api.get(`/app/api/certificate_url?id=${id}`, store.test);
  t.is(status, 200);
  const page = certificateUrl.parse(body).certificate_url.replace("https://impact.example", url);
  const text = (await (await fetch(page)).text()) + (await (await fetch(`${page}.json`)).text());
  t.regex(text, /"registered":2/u);
  t.notRegex(text, /Ann|ann@example|1001/u);
  const unknown = await api.get("/app/api/certificate_url?id=unknown", store.test);
  t.is(unknown.status, 404);
});

test.serial("kind selects one of a store's records that were imported with one id", async (t) => {
  const { db } = t.context;
  const { serve } = await setUp(t);
  const { url } = await serve();
  const store = await createTestStore(db, { domain: "moved.example" });
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
  const api = await startStoreApi(t, { db });

  for (const [kind, type] of [
    ["", "trees"],
    ["&kind=tree", "trees"],
    ["&kind=bottle", "bottles"],
    ["&kind=donation", "donation"],
  ] as const) {
    const { status, body } = await api.get(`/app/api/certificate_url?id=old-1${kind}`, store.test);
    t.is(status, 200, kind);
    const page = certificateUrl.parse(body).certificate_url.replace("https://impact.example", url);
    t.like(await (await fetch(`${page}.json`)).json(), { type });
  }
  const other = await api.get("/app/api/certificate_url?id=old-1&kind=order", store.test);
  t.is(other.body["error"], "kind: must be one of tree, bottle, donation");
});

test.serial(
  "page and certificate name who verified trees of a real partner, with the document",
  async (t) => {
    const scene = await openDashboard(t, { partner: "manual", timeline: "sessions" });
    const { deps, register, createOrders, place, orders, organization } = scene.setup;
    const id = await register(10);
    await createOrders();
    await place();
    const [order] = await orders();
    const coordinates = { latitude: -4.42, longitude: 39.51 };
    const verified: PlantingFact = {
      stage: "planted_and_verified",
      occurred_at: "2026-05-01T10:00:00.000Z",
      planting_session_reference: "session-7",
      field_update_reference: "update-7",
      planting_site: {
        ...coordinates,
        reference: "site-7",
        name: "Gazi Bay",
        subsite_name: "",
        organization_name: "Gazi Growers",
        region: "Kwale",
        country: "Kenya",
        forest_type: "mangrove",
        main_image: "",
      },
      assessor_name: "Ann Lee",
      verifier: "Green Audit",
      session_total_planted: 20,
      species: ["Avicennia marina"],
      image_url: "https://audit.example/7.pdf",
      ...coordinates,
      photos: ["https://photos.example/7.jpg"],
    };
    await recordPlantingFacts(deps, order?.id ?? 0, [verified], "operator");

    const page = (await (await fetch(scene.page)).text()).replaceAll(/\s+/gu, " ");
    t.regex(
      page,
      /10 planted and verified, 100% of the registered trees\. 10 verified by a third party\./u,
    );
    t.regex(page, /Green Audit.{1,40} 10 trees verified by a third party, last on May.1,.2026/u);
    t.true(page.includes('href="https://audit.example/7.pdf"'));
    const token = await getCertificateToken(
      deps,
      { accountId: organization.id, mode: "live" },
      id,
      null,
    );
    const certificate = await fetch(`${scene.url}/certificate/${token}`);
    t.regex(
      certificate.headers.get("Content-Security-Policy") ?? "",
      /; img-src 'self' https:\/\/photos\.example; /u,
    );
    t.regex(
      await certificate.text(),
      /All 10 planted and verified by a third party on May.1,.2026\./u,
    );
    t.like(await (await fetch(`${scene.url}/certificate/${token}.json`)).json(), {
      state: "planted_and_verified",
      verification: {
        verifier: "Green Audit",
        by: "third_party",
        document_url: "https://audit.example/7.pdf",
      },
      photo_url: "https://photos.example/7.jpg",
      project: { name: "Gazi Bay", country: "Kenya" },
    });
  },
);
