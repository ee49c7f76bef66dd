import { mkdir, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { dirname, join } from "node:path";
import { demoPages } from "../../api/standalone/demoPages.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";

const test = testWithDatabase();

/* The system tests open the pages of a real demo in a browser. */

test("a demo of another version is rejected with what to do", async (t) => {
  const file = join(await makeTestFolder(t), "demo.json");
  await writeFile(file, '{"pages":{}}');
  const options = { host: "127.0.0.1", storeUrl: "", publicBaseUrl: () => "" };
  t.throws(() => demoPages(file, options), {
    name: "StartupError",
    message: /Delete this folder, and start again/u,
  });
});

/** Opens a page under another name of the server, as after a change of the name's address. */
const openAs = async (url: string, host: string): Promise<string> =>
  new Promise((resolve, reject) => {
    request(url, { headers: { host, accept: "text/html" } }, (response) => resolve(text(response)))
      .on("error", reject)
      .end();
  });

for (const [host, isShown] of [
  ["127.0.0.1", true],
  ["0.0.0.0", false],
] as const) {
  test(`the demo's page has ${isShown ? "the" : "no"} test keys at ${host}`, async (t) => {
    const folder = join(await makeTestFolder(t), "with space");
    await mkdir(folder);
    const file = join(folder, "demo.json");
    const names = ["page", "verified", "recent", "refunded", "donation", "order"];
    const pages = Object.fromEntries(names.map((name) => [name, `/${name}`]));
    const demo = {
      organizationId: crypto.randomUUID(),
      shop: { name: "Coats & <Hats>", color: "#0b5d8a", domain: "shop.example" },
      pages,
      testKeys: { organization: "impact_test_1", store: "TEST-1" },
    };
    await writeFile(file, JSON.stringify(demo));
    const publicBaseUrl = "https://impact.example/base";
    const options = { host, storeUrl: "http://127.0.0.1:8081", publicBaseUrl: () => publicBaseUrl };
    const demoOf = { demo: demoPages(file, options), publicBaseUrl };
    const { url } = await startStandaloneApi(t, { db: t.context.db, ...demoOf });
    const page = await fetch(`${url}/`);
    const html = await page.text();
    t.is(page.status, 200);
    t.is(page.headers.get("cache-control"), "no-store");
    t.true(html.includes("Coats &amp; &lt;Hats&gt;") && html.includes('href="/base/demo/shop"'));
    t.is(html.includes("impact_test_1") && html.includes("TEST-1"), isShown);
    for (const name of ["rebound.example", "impact.example"]) {
      t.false((await openAs(url, name)).includes("impact_test_1"), name);
    }
    t.true(html.includes(`DATA_DIR=&#39;${dirname(file)}&#39; npm run -s impact -- doctor`));
    const shop = await (await fetch(`${url}/demo/shop`)).text();
    t.true(shop.includes('src="/base/page/card"'));
    t.true(shop.includes("src=&quot;https://impact.example/base/page/badge.svg&quot;"));
  });
}
