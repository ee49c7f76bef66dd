import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import { readDashboard } from "../../modules/dashboard/readDashboard.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { openDashboard, readPage } from "./dashboardScene.ts";
import { countCalls } from "../support/countCalls.ts";
import { wrapPool } from "../../db/pools/pool.ts";
import { createTestOrganization } from "../support/factories.ts";
import { insertAlias } from "../../modules/dashboard/dashboards.sql.ts";

const test = testWithDatabase();

const ROUTES = ["", ".json", "/badge.svg", "/card"];

const verifiedJson = z.looseObject({
  verifications: z.array(z.looseObject({ document_url: z.string() })),
});

/** Returns which sites may read a response; null for none but its own. */
const readersOf = ({ headers }: Response) => headers.get("Access-Control-Allow-Origin");

test.serial("the JSON has the live numbers by month and may be read by every site", async (t) => {
  const { page, clock, fillYear } = await openDashboard(t, { name: "North Sea Outfitters" });
  await fillYear();
  const response = await fetch(`${page}.json`);
  t.is(response.status, 200);
  t.is(response.headers.get("Content-Type"), "application/json; charset=utf-8");
  t.is(readersOf(response), "*");
  t.is(response.headers.get("Cache-Control"), "public, max-age=10");
  const json = verifiedJson.parse(await response.json());
  const planted = { planted: 21_754, planted_and_verified: 21_754 };
  t.deepEqual(json, {
    name: "North Sea Outfitters",
    url: page,
    logo_url: null,
    colors: { light: "#1c6b47", dark: "#6fca9b" },
    trees: { total: 22_988, month: 2543, ...planted, simulated: true },
    bottles: { total: 7362, month: 877 },
    donations: { count: 2, amount_cents: 129_999 },
    verifications: [
      {
        verifier: "Simulated verifier",
        by: "simulation",
        trees: 21_754,
        latest_at: "2026-05-03T12:03:00.000Z",
        document_url: json.verifications[0]?.document_url,
      },
    ],
    updated_at: clock.now().toISOString(),
  });
});

test.serial("months with nothing but hidden bottles are not shown", async (t) => {
  const { register, serveAgain, setProfile } = await openDashboard(t);
  await register(3, { kind: "bottle" });
  t.true((await readPage(await serveAgain())).includes("Month by month"));
  await setProfile({ hiddenSections: ["bottles"] });
  t.false((await readPage(await serveAgain())).includes("Month by month"));
});

test.serial(
  "the oldest month is shown while a process whose clock is ahead is in the next one",
  async (t) => {
    const { clock, deps, organization, register } = await openDashboard(t);
    for (let month = 0; month <= 12; month += 1) {
      clock.set(new Date(Date.UTC(2025, 6 + month, 1)).toISOString());
      await register(1 + month);
    }
    clock.set("2026-06-30T23:59:59.999Z");

    const { months } = await readDashboard(deps, { accountId: organization.id, name: "" });

    const expected = Array.from({ length: 12 }, (_, month) => 1 + month);
    t.deepEqual(
      months.map(({ trees }) => trees),
      expected,
    );
  },
);

test.serial("badge and card may be embedded anywhere, the page in no frame", async (t) => {
  const { page: url } = await openDashboard(t);
  const badge = await fetch(`${url}/badge.svg`);
  t.is(badge.headers.get("Content-Type"), "image/svg+xml");
  t.is(badge.headers.get("Cross-Origin-Resource-Policy"), "cross-origin");
  t.true((await badge.text()).includes("0 · 0 verified"));
  const card = await fetch(`${url}/card`);
  t.is(card.headers.get("X-Frame-Options"), null);
  t.false((card.headers.get("Content-Security-Policy") ?? "").includes("frame-ancestors"));
  const page = await fetch(url);
  t.regex(
    page.headers.get("Content-Security-Policy") ?? "",
    /^default-src 'none'.*frame-ancestors 'none'/u,
  );
});

test.serial("the page allows photos of hosts that add nothing else to its policy", async (t) => {
  const { register, plant, organization, page, serveAgain } = await openDashboard(t);
  await register(10);
  await plant();
  const policyWith = async (...urls: readonly string[]): Promise<string> => {
    await t.context.db.query(sql.typeAlias("void")`
      UPDATE planting_fact
      SET content = jsonb_set(
        jsonb_set(content, '{photos}', to_jsonb(${sql.array(urls, "text")})), '{media}', '[]', false
      )
      WHERE order_id IN (SELECT id FROM planting_order WHERE account_id = ${organization.id})
        AND stage IN ('planted', 'planted_and_verified')
    `);
    const shown = await fetch(await serveAgain());
    t.is(shown.status, 200, page);
    t.true((await shown.text()).includes(`src="${urls[0]}"`));
    return shown.headers.get("Content-Security-Policy") ?? "";
  };
  t.regex(
    await policyWith("https://photos.example:8443/b.jpg", "http://[2001:db8::1]/c.jpg"),
    /; img-src 'self' (?:https:\/\/photos\.example:8443 ?|http:\/\/\[2001:db8::1\] ?){2}; frame-ancestors 'none'$/u,
  );
  t.regex(
    await policyWith(
      "https://x;script-src/a.jpg",
      "https://evil.example/b.jpg",
      "https://x,y/c.jpg",
      "https://x'y/d.jpg",
      "https://*.example/e.jpg",
    ),
    /; img-src 'self' https:\/\/evil\.example; frame-ancestors 'none'$/u,
  );
});

test.serial("beside trees of a real partner no simulated ones count", async (t) => {
  const { fillYear, deps, organization, page: url } = await openDashboard(t);
  await fillYear();
  const { sites } = await readDashboard(deps, { accountId: organization.id, name: "" });
  const [real = t.fail()] = sites;
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE planting_site SET partner = 'manual' WHERE id = ${real.siteId}
  `);
  const page = await readPage(url);
  t.regex(page, /planted and verified, \d+% of the registered trees/u);
  t.notRegex(page, /Simulation\.|in a simulation/u);
  const names = [...page.matchAll(/<h3>([^<]+)<\/h3> <p>/gu)].map(([, name]) => name);
  t.deepEqual(names, [real.name]);
  t.like(await (await fetch(`${url}.json`)).json(), {
    trees: { planted: real.planted, simulated: false },
  });
});

test.serial("photos of trees that were all refunded are not shown", async (t) => {
  const { register, plant, refund, serveAgain } = await openDashboard(t);
  const id = await register(10);
  await plant();
  await refund(id, 4);
  const shown = await readPage(await serveAgain());
  t.true(shown.includes("Evidence of the verification of 6 trees"));
  await refund(id, 6);
  t.false((await readPage(await serveAgain())).includes("Evidence of"));
});

test.serial("an unknown page is a 404 in the requested format", async (t) => {
  const { url } = await openDashboard(t);
  const routes = [
    ...ROUTES.map((suffix) => ["dashboard", suffix] as const),
    ...["", ".json"].map((suffix) => ["certificate", suffix] as const),
  ];
  for (const name of [
    "unknown-page-abcdefgh",
    "x",
    "%00%00%00%00%00%00%00%00",
    "..%2f..%2fetc",
    "a".repeat(32),
    "A".repeat(32),
    "A".repeat(5000),
  ]) {
    for (const [kind, suffix] of routes) {
      const response = await fetch(`${url}/${kind}/${name}${suffix}`);
      t.is(response.status, 404, kind + name + suffix);
      t.is(readersOf(response), suffix === "" ? null : "*", "as of a page that exists");
      const isPage = suffix === "" || suffix === "/card";
      t.is(
        response.headers.get("Content-Type"),
        `${isPage ? "text/html" : "application/json"}; charset=utf-8`,
      );
      await response.text();
    }
  }
  t.is((await fetch(`${url}/media/simulated/%3Cscript%3E.svg`)).status, 404);
});

test.serial("an unknown path of public pages is a page that says so", async (t) => {
  const { url, page } = await openDashboard(t);
  for (const target of [
    `${url}/dashboard`,
    `${url}/dashboard/`,
    `${url}/certificate/x/y`,
    `${page}/other`,
    `${page}x/`,
  ]) {
    const shown = await fetch(target);
    t.is(shown.status, 404, target);
    t.is(shown.headers.get("Content-Type"), "text/html; charset=utf-8");
    t.regex(shown.headers.get("Content-Security-Policy") ?? "", /^default-src 'none'; /u);
    t.regex(await shown.text(), /<h1>No such page<\/h1>/u);
  }
});

test.serial("a slug has no accents, and a slash after it redirects to the page", async (t) => {
  const { page } = await openDashboard(t, { name: "Söns & Zoë" });
  t.regex(page, /\/sons-zoe-[a-z0-9]{8}$/u);
  for (const slash of ["/", "/?utm_source=mail"]) {
    const response = await fetch(`${page}${slash}`, { redirect: "manual" });
    t.is(response.status, 301);
    t.is(response.headers.get("Location"), page);
  }
});

/** Of one read of a dashboard. */
const STATEMENTS = 7;

test("all that shows a dashboard shares one read of the database", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const slug = await getDashboardSlug({ db, clock: systemClock }, id);
  const { db: counted, count } = countCalls(db);
  const { url } = await startStandaloneApi(t, { db: counted });
  const before = count();
  const responses = await Promise.all(
    ROUTES.map((suffix) => fetch(`${url}/dashboard/${slug}${suffix}`)),
  );
  t.true(responses.every(({ status }) => status === 200));
  t.is(count() - before, STATEMENTS);
});

test.serial("other sites may follow an imported slug, and read why there is nothing", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const slug = await getDashboardSlug({ db, clock: systemClock }, accountId);
  await insertAlias(db, { slug: "old-page", accountId, createdAt: systemClock.now() });
  const outage = { begun: false };
  const breakable = wrapPool(db, (method) => (...parameters) => {
    if (outage.begun) {
      throw new Error("out of order");
    }
    return method(...parameters);
  });
  const { url } = await startStandaloneApi(t, { db: breakable });

  for (const suffix of ROUTES) {
    const readers = suffix === "" ? null : "*";
    const moved = await fetch(`${url}/dashboard/old-page${suffix}`, { redirect: "manual" });
    t.is(moved.status, 301);
    t.is(moved.headers.get("Location"), `${url}/dashboard/${slug}${suffix}`);
    t.is(moved.headers.get("Access-Control-Allow-Origin"), readers, suffix);
    outage.begun = true;
    const failed = await fetch(`${url}/dashboard/unread${suffix}`);
    t.is(failed.status, 500);
    t.is(failed.headers.get("Access-Control-Allow-Origin"), readers, suffix);
    outage.begun = false;
  }
});
