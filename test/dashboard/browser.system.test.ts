import type { ExecutionContext } from "ava";
import type { Browser, Page } from "playwright-core";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { serveRequests } from "../support/server.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { auditAccessibility, openBrowser, visit as visitIn } from "./browser.ts";
import type { View } from "./browser.ts";
import { getCertificateToken } from "../../modules/dashboard/manageCertificates.ts";
import { LOGO, openDashboard } from "./dashboardScene.ts";
import type { DashboardScene } from "./dashboardScene.ts";
import type { PlantingOptions } from "../planting/setUpPlanting.ts";

const test = testWithDatabase().serial;

let browser: Browser;
test.before(async () => {
  browser = await openBrowser();
});
test.after.always(() => browser.close());

const DESKTOP = { width: 1280, height: 900 } as const;
const PHONE = { width: 360, height: 740 } as const;

const visit = (t: ExecutionContext, url: string, view: View = DESKTOP) =>
  visitIn(t, browser, url, view);

/** Opens the dashboard of an organization with a year of records. */
const openFilled = async (t: DatabaseTest, options?: PlantingOptions) => {
  const scene = await openDashboard(t, options);
  await scene.fillYear();
  return scene;
};

const overflowOf = (page: Page): Promise<unknown> =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

/** Returns the URL of the certificate of one of the scene's verified registrations. */
const certificateOf = async (
  { context: { db } }: DatabaseTest,
  { deps, organization, url }: DashboardScene,
) => {
  const accountId = organization.id;
  const id = await db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT registration.id
    FROM registration
    JOIN planting_order ON planting_order.id = planting_order_id
    WHERE planting_order.account_id = ${accountId} AND planting_order.mode = 'live'
    ORDER BY registration.created_at
    LIMIT 1
  `);
  const token = await getCertificateToken(deps, { accountId, mode: "live" }, id, null);
  return `${url}/certificate/${token}`;
};

const VIEWS = [
  { ...DESKTOP, colorScheme: "light" },
  { ...DESKTOP, colorScheme: "dark" },
  { ...PHONE, colorScheme: "light" },
  { ...PHONE, colorScheme: "dark" },
] as const;

test("on desktops and phones, light and dark, page and certificate are complete, accessible, free of console messages and load from no other host", async (t) => {
  const scene = await openFilled(t, { name: "North Sea Outfitters" });
  await scene.setProfile({
    color: "#ffd400",
    homeUrl: "https://northsea.example/",
    story: "We make clothes for bad weather.\n\nEach jacket plants ten trees.",
    showsCarbon: true,
    logo: LOGO,
  });
  const pictures = { [scene.page]: 7, [await certificateOf(t, scene)]: 2 };
  for (const view of VIEWS) {
    const title = JSON.stringify(view);
    for (const [url, count] of Object.entries(pictures)) {
      const { page, problems, origins } = await visit(t, url, view);
      t.deepEqual(problems, [], title);
      t.deepEqual([...origins], [scene.url], title);
      t.deepEqual(await auditAccessibility(page), [], title);
      t.is(await overflowOf(page), 0, title);
      const loaded: unknown = await page.evaluate(
        "[...document.images].filter((image) => image.naturalWidth > 0).length",
      );
      t.is(loaded, count, title);
    }
  }
});

test("pages without content are accessible", async (t) => {
  const scene = await openDashboard(t, { name: "New here" });
  const { page, problems } = await visit(t, scene.page);
  t.deepEqual(problems, []);
  t.deepEqual(await auditAccessibility(page), []);
  t.deepEqual(await page.locator("h2").allInnerTexts(), ["How these numbers are calculated"]);
  t.regex(await page.locator("main").innerText(), /No trees are registered at the moment/u);
  const unknown = await visit(t, `${scene.url}/dashboard/`, PHONE);
  t.true(
    unknown.problems.every((problem) => problem.includes("404")),
    unknown.problems.join("\n"),
  );
  t.deepEqual(await auditAccessibility(unknown.page), []);
  t.is(await unknown.page.locator("h1").innerText(), "No such page");
});

test("without scripts the page works, and the keyboard reaches its map", async (t) => {
  const scene = await openFilled(t);
  const { page } = await visit(t, scene.page, { ...DESKTOP, javaScript: false });
  t.is(await page.locator("script").count(), 0);
  await page.keyboard.press("Tab");
  t.is(await page.locator(":focus").innerText(), "Skip to content");
  const point = page.locator(".point").first();
  await point.focus();
  await page.keyboard.press("Enter");
  const project = page.locator(".project:target");
  t.true(await project.isVisible());
  t.true(
    (await point.getAttribute("aria-label"))?.includes(await project.locator("h3").innerText()),
  );
});

test("the largest numbers fit the page and the card at every width", async (t) => {
  const scene = await openFilled(t);
  const { db } = t.context;
  for (const total of [1_234_567_890, Number.MAX_SAFE_INTEGER]) {
    await db.query(sql.typeAlias("void")`
      UPDATE impact_total SET total = ${total} WHERE account_id = ${scene.organization.id} AND mode = 'live'
    `);
    const other = await scene.serveAgain();
    for (const [path, widths] of [
      ["", [360, 750, 1280]],
      ["/card", [320]],
    ] as const) {
      const { page } = await visit(t, other + path, { width: widths[0], height: 740 });
      for (const width of widths) {
        await page.setViewportSize({ width, height: 740 });
        const overflow: unknown = await page.evaluate(
          "Math.max(0, ...[document.documentElement, ...document.querySelectorAll('.number')].map((element) => element.scrollWidth - element.clientWidth))",
        );
        t.is(overflow, 0, `${total} at ${width}${path}`);
      }
    }
  }
});

test("the card fits an iframe on another site and links to the page", async (t) => {
  const scene = await openFilled(t, { name: "North Sea Outfitters" });
  const { page, problems } = await visit(t, `${scene.page}/card`, { width: 320, height: 200 });
  t.deepEqual(problems, []);
  t.deepEqual(await auditAccessibility(page), []);
  t.is(await page.getByRole("link").getAttribute("href"), new URL(scene.page).pathname);
  const overflow: unknown = await page.evaluate(
    "document.documentElement.scrollHeight - innerHeight",
  );
  t.is(overflow, 0);
  const otherSite = await serveRequests(t, (_request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<iframe src="${scene.page}/card" title="card"></iframe>`);
  });
  const { page: host } = await visit(t, otherSite, { width: 600, height: 400 });
  t.regex(
    await host.frameLocator("iframe").locator("main").innerText({ timeout: 30_000 }),
    /trees registered, [\d,]+ planted and verified/u,
  );
});

test("page and certificate print in light colors, the latter on one sheet", async (t) => {
  const scene = await openFilled(t);
  const view = { ...DESKTOP, colorScheme: "dark" } as const;
  const { page } = await visit(t, scene.page, view);
  t.false(await page.locator(".printed").isVisible());
  await page.emulateMedia({ media: "print" });
  const colors: unknown = await page.evaluate(
    "(({ color, backgroundColor }) => [color, backgroundColor])(getComputedStyle(document.body))",
  );
  t.deepEqual(colors, ["rgb(24, 35, 29)", "rgb(255, 255, 255)"]);
  t.false(await page.locator(".share").isVisible());
  t.true(await page.locator(".printed").isVisible());

  const certificate = await visit(t, await certificateOf(t, scene), view);
  const pdf = await certificate.page.pdf({ format: "A4", preferCSSPageSize: true });
  t.is(pdf.toString("latin1").match(/\/Type ?\/Page\b/gu)?.length, 1);
});

test("in forced colors, charts and logo differ from what is behind them", async (t) => {
  const scene = await openFilled(t);
  await scene.setProfile({ logo: LOGO });
  const { page } = await visit(t, scene.page);
  await page.emulateMedia({ forcedColors: "active", colorScheme: "dark" });
  const colors: unknown = await page.evaluate(
    "['.bar', '.badge', '.logo', '.sheet'].map((selector) => getComputedStyle(document.querySelector(selector)).backgroundColor)",
  );
  const [bar, badge, logo, sheet] = z.array(z.string()).parse(colors);
  t.not(bar, sheet);
  t.not(badge, sheet);
  t.is(logo, "rgb(255, 254, 251)");
});

const HOSTILE = `"><script>document.title="owned"</script><img src=x onerror=alert(1)>&'\u202E`;

test("long names without spaces fit the page, the card and certificates", async (t) => {
  const { db } = t.context;
  const long = "W".repeat(200);
  const scene = await openFilled(t, { name: long });
  await scene.setProfile({ homeUrl: `https://www.${"outdoorclothing".repeat(4)}.example/` });
  const { id: accountId } = scene.organization;
  await db.query(sql.typeAlias("void")`
    UPDATE planting_site
    SET partner = 'manual', name = ${long}, organization_name = ${long}, region = ${long}, country = ${long}
  `);
  await db.query(sql.typeAlias("void")`
    UPDATE planting_order SET partner_name = ${long} WHERE account_id = ${accountId}
  `);
  const donationId = await db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    INSERT INTO donation
      (id, account_id, mode, created_at, amount_cents, nonprofit_id, charity_provider, charity_name)
    VALUES (gen_random_uuid(), ${accountId}, 'live', now(), 100, 'charity', 'catalogue', ${"W".repeat(500)})
    RETURNING id
  `);
  const owner = { accountId, mode: "live" } as const;
  const ofDonation = await getCertificateToken(scene.deps, owner, donationId, null);
  for (const url of [
    scene.page,
    `${scene.page}/card`,
    `${scene.url}/certificate/${ofDonation}`,
    await certificateOf(t, scene),
  ]) {
    const { page } = await visit(t, url, { width: 320, height: 640 });
    for (const width of [320, 750, 1280]) {
      await page.setViewportSize({ width, height: 740 });
      t.is(await overflowOf(page), 0, `${url} at ${width}`);
    }
  }
});

test("hostile texts are text on the page, card, badge and certificate", async (t) => {
  const scene = await openFilled(t, { name: HOSTILE });
  await scene.setProfile({ story: HOSTILE, homeUrl: `https://a.example/${HOSTILE}` });
  const urls = ["", "/card", "/badge.svg"].map((path) => scene.page + path);
  for (const url of [...urls, await certificateOf(t, scene)]) {
    const { page, problems } = await visit(t, url, { width: 800, height: 600 });
    t.deepEqual(problems, []);
    t.is(await page.locator("script").count(), 0);
    t.is(await page.locator("img[src=x]").count(), 0);
    t.not(await page.title(), "owned");
    t.true((await page.content()).includes("&lt;script&gt;"));
  }
});
