import type { ExecutionContext } from "ava";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { fillYear, openDashboard } from "./dashboardScene.ts";
import { readDashboard } from "../../services/readDashboard.ts";

const test = testWithDatabase();

const open = async (t: ExecutionContext<DatabaseContext>, name?: string) => {
  const scene = await openDashboard(t, name === undefined ? {} : { name });
  return {
    ...scene,
    read: (suffix: string, init?: RequestInit) => fetch(scene.page + suffix, init),
  };
};

test.serial(
  "the numbers are there as JSON for every site, live ones alone and each in its month",
  async (t) => {
    const scene = await open(t, "North Sea Outfitters");
    const { setup, read } = scene;
    await fillYear(t, scene);
    const response = await read(".json");
    t.is(response.status, 200);
    t.is(response.headers.get("Content-Type"), "application/json; charset=utf-8");
    t.is(response.headers.get("Access-Control-Allow-Origin"), "*");
    t.is(response.headers.get("Cache-Control"), "public, max-age=10");
    t.deepEqual(await response.json(), {
      name: "North Sea Outfitters",
      trees: { total: 22_988, month: 2543, planted_and_verified: 21_754 },
      bottles: { total: 7362, month: 877 },
      donations: { count: 2, amount_cents: 129_999 },
      updated_at: setup.clock.now().toISOString(),
    });
  },
);

test.serial("a new page is zeros, not gaps", async (t) => {
  const { read } = await open(t);
  t.like(await (await read(".json")).json(), {
    trees: { total: 0, month: 0, planted_and_verified: 0 },
    bottles: { total: 0, month: 0 },
    donations: { count: 0, amount_cents: 0 },
  });
});

test.serial("badge and card may be shown anywhere, the page itself in no frame", async (t) => {
  const { read } = await open(t);
  const badge = await read("/badge.svg");
  t.is(badge.headers.get("Content-Type"), "image/svg+xml");
  t.is(badge.headers.get("Access-Control-Allow-Origin"), "*");
  t.is(badge.headers.get("Cross-Origin-Resource-Policy"), "cross-origin");
  t.true((await badge.text()).includes("0 · 0 verified"));
  const card = await read("/card");
  t.is(card.headers.get("X-Frame-Options"), null);
  t.false((card.headers.get("Content-Security-Policy") ?? "").includes("frame-ancestors"));
  const page = await read("");
  t.regex(page.headers.get("Content-Security-Policy") ?? "", /frame-ancestors 'none'/u);
  t.regex(page.headers.get("Content-Security-Policy") ?? "", /^default-src 'none'/u);
});

test.serial("who has a picture of the page is told so", async (t) => {
  const { read } = await open(t);
  const etag = (await read("/badge.svg")).headers.get("ETag") ?? "";
  const again = await read("/badge.svg", {
    headers: { "If-None-Match": etag, "Cache-Control": "max-age=0" },
  });
  t.is(again.status, 304);
});

test.serial("what is no page is not found, in the form that was asked for", async (t) => {
  const { url } = await open(t);
  for (const slug of [
    "unknown-page-abcdefgh",
    "x",
    "%00%00%00%00%00%00%00%00",
    "..%2f..%2fetc",
    "A".repeat(5000),
  ]) {
    for (const suffix of ["", ".json", "/badge.svg", "/card"]) {
      const response = await fetch(`${url}/dashboard/${slug}${suffix}`);
      t.is(response.status, 404, slug + suffix);
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

test.serial("concurrent visitors share one look at the database", async (t) => {
  const { page } = await open(t);
  const answers = await Promise.all(
    Array.from({ length: 50 }, async () => (await fetch(`${page}.json`)).text()),
  );
  t.is(new Set(answers).size, 1);
});

test.serial("nobody's page is null", async (t) => {
  const { setup } = await open(t);
  t.is(await readDashboard(setup.deps, "nobody-abcdefgh"), null);
});
