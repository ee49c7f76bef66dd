import type { ExecutionContext } from "ava";
import type { Browser, Page } from "playwright-core";
import { insertAlias } from "../../modules/dashboard/dashboards.sql.ts";
import { startServer } from "../../runtime/server/startServer.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { auditAccessibility, openBrowser, visit } from "./browser.ts";
import { fillYear, openDashboard, setProfile } from "./dashboardScene.ts";

const test = testWithDatabase();

let browser: Browser;
test.before(async () => {
  browser = await openBrowser();
});
test.after.always(() => browser.close());

/** Opens a page of another site, which allows no inline styles, with a card in it. */
const openHost = async (
  t: ExecutionContext<DatabaseContext>,
  service: string,
  src: string,
): Promise<Page> => {
  const { url, close } = await startServer(
    (_request, response) => {
      response.setHeader("Content-Type", "text/html");
      response.setHeader(
        "Content-Security-Policy",
        `default-src 'none'; script-src ${service}; connect-src ${service}; img-src ${service}`,
      );
      response.end(
        `<!doctype html><html lang="en"><title>Shop</title><main><h1>Shop</h1>` +
          `<script type="module" src="${service}/embed/v1/impact-card.js"></script>` +
          `<impact-card src="${src}"><a href="${src}">Our impact</a></impact-card></main></html>`,
      );
    },
    { host: "127.0.0.1", port: 0, setting: "PORT" },
  );
  t.teardown(() => close(1000));
  const { page } = await visit(t, browser, url, { width: 400, height: 500 });
  return page;
};

test.serial("the card element shows the numbers on a site with a strict policy", async (t) => {
  const scene = await openDashboard(t, { name: `<img src=x onerror="document.title='owned'">` });
  await fillYear(t, scene);
  await setProfile(t, scene, { color: "#1c6b47" });
  const page = await openHost(t, scene.url, scene.page);
  const card = page.locator("impact-card");
  await card.locator(".number").waitFor();
  t.is(await card.locator(".number").innerText(), "22,988");
  t.regex(
    await card.locator("article").innerText(),
    /trees registered, 21,754 planted and verified \(simulated\)/u,
  );
  t.is(await card.locator(".name").innerText(), `<img src=x onerror="document.title='owned'">`);
  t.is(await card.locator("article a").getAttribute("href"), scene.page);
  t.is(await page.title(), "Shop");
  t.is(
    await page.evaluate(
      "getComputedStyle(document.querySelector('impact-card').shadowRoot.querySelector('.number')).color",
    ),
    "rgb(28, 107, 71)",
  );
  t.deepEqual(await auditAccessibility(page), []);
});

test.serial("the card element of an organization without trees shows its bottles", async (t) => {
  const scene = await openDashboard(t);
  await scene.setup.register(1, { kind: "bottle" });
  const page = await openHost(t, scene.url, scene.page);
  const card = page.locator("impact-card");
  await card.locator(".number").waitFor();
  t.is(await card.locator(".number").innerText(), "1");
  t.is(await card.locator(".small").first().innerText(), "ocean-bound bottle rescued");
});

test.serial("the card element of an imported slug shows the numbers", async (t) => {
  const scene = await openDashboard(t);
  const { clock, organization } = scene.setup;
  await insertAlias(t.context.db, {
    slug: "old-page",
    accountId: organization.id,
    createdAt: clock.now(),
  });
  const src = `${scene.url}/dashboard/old-page`;
  const page = await openHost(t, scene.url, src);
  await page.locator("impact-card .number").waitFor();
  t.is(await page.locator("impact-card article a").getAttribute("href"), src);
});

test.serial("without numbers, the element shows its own content", async (t) => {
  const scene = await openDashboard(t);
  for (const src of [`${scene.url}/dashboard/unknown-slug`, "javascript:alert(1)"]) {
    const page = await openHost(t, scene.url, src);
    t.true(await page.getByText("Our impact").isVisible());
    t.is(await page.locator("impact-card article").count(), 0);
  }
});

test.serial("the script may be loaded by every site and is cached", async (t) => {
  const { url } = await openDashboard(t);
  const response = await fetch(`${url}/embed/v1/impact-card.js`);
  t.is(response.headers.get("Content-Type"), "text/javascript; charset=utf-8");
  t.is(response.headers.get("Access-Control-Allow-Origin"), "*");
  t.is(response.headers.get("Cache-Control"), "public, max-age=86400");
  t.is(response.headers.get("X-Content-Type-Options"), "nosniff");
  t.true((await response.text()).length < 8000);
});
