import { fileURLToPath } from "node:url";
import { z } from "zod";
import { fillDemo } from "../../embedded/demo/fillDemo.ts";
import { createDemoPlanting } from "../../embedded/demo/history.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { openBrowser, visit } from "./browser.ts";
import { SHOTS } from "./screenshots.ts";

/*
 * `npm run screenshots`: takes the pictures of the public pages in docs/images, with the data of `npm start -- --demo`.
 * Review them before you commit them.
 */

const test = testWithDatabase();

const FOLDER = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const NOW = "2026-06-05T10:00:00.000Z";

test("screenshots are taken", async (t) => {
  const browser = await openBrowser();
  t.teardown(() => browser.close());
  const { db } = t.context;
  const clock = createMovableClock(NOW);
  const planting = createDemoPlanting();
  const { pages } = await fillDemo(db, clock.now());
  const { url } = await startStandaloneApi(t, {
    db,
    clock,
    planting,
    publicBaseUrl: "https://impact.example",
  });
  const paths = {
    page: pages["public page"],
    card: `${pages["public page"]}/card`,
    certificate: pages["verified"],
    order: pages["order"],
  };
  for (const { name, of, width, colorScheme, ...shot } of SHOTS) {
    const view = { width, height: shot.height ?? 900, colorScheme };
    const { page } = await visit(t, browser, url + paths[of], view);
    if (shot.media !== undefined) {
      await page.emulateMedia({ media: shot.media });
    }
    const size: unknown = await page.evaluate("document.documentElement.scrollHeight");
    const height = shot.height ?? z.number().parse(size);
    await page.screenshot({
      path: `${FOLDER}${name}.jpg`,
      type: "jpeg",
      quality: 42,
      fullPage: true,
      clip: { x: 0, y: 0, width, height },
    });
  }
  t.pass();
});
