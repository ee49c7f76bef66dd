import { readdir, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { rasterize } from "../../services/dashboard/pictures/rasterize.ts";
import { normalizeLogo } from "../../services/dashboard/normalizeLogo.ts";
import { testWithDatabase } from "../support/database.ts";
import { openBrowser, visit } from "./browser.ts";
import { fillYear, openDashboard, setProfile } from "./dashboardScene.ts";

/*
 * The pictures of the public page in docs/images. `npm run screenshots` takes them again; look at them before you commit
 * them.
 */

const test = testWithDatabase();

const FOLDER = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const MAXIMUM_BYTES = 1.5 * 1024 * 1024;

const SHOTS = [
  { name: "page-desktop-light", width: 1280, colorScheme: "light" },
  { name: "page-desktop-dark", width: 1280, colorScheme: "dark" },
  { name: "page-phone-light", width: 360, colorScheme: "light" },
  { name: "page-phone-dark", width: 360, colorScheme: "dark" },
  // The width of A4 at 96 pixels an inch.
  { name: "page-printed", width: 794, colorScheme: "dark", media: "print" },
  { name: "page-top", width: 1280, colorScheme: "light", height: 860 },
] as const;

const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" width="480" height="160"><path fill="#0b5d8a" d="M80 20c40 30 40 90 0 120c-40-30-40-90 0-120z"/><path stroke="#fff" stroke-width="6" d="M80 40v92M80 70l18-14M80 92l22-16M80 92l-22-16M80 70l-18-14" fill="none"/><text x="150" y="104" font-family="Source Serif 4" font-weight="600" font-size="68" fill="#0b5d8a">North Sea</text></svg>`;

if (process.env["WRITE_SCREENSHOTS"] === undefined) {
  test("docs/images has every screenshot, and all pictures take less than 1.5 MB", async (t) => {
    const files = await readdir(FOLDER);
    t.deepEqual(files.toSorted(), SHOTS.map(({ name }) => `${name}.jpg`).toSorted());
    const sizes = await Promise.all(files.map(async (file) => (await stat(FOLDER + file)).size));
    t.true(sizes.reduce((sum, size) => sum + size, 0) < MAXIMUM_BYTES);
  });
} else {
  test("screenshots are taken", async (t) => {
    const browser = await openBrowser();
    t.teardown(() => browser.close());
    const scene = await openDashboard(t, { name: "North Sea Outfitters" });
    await fillYear(t, scene);
    const { png } = await rasterize(LOGO);
    await setProfile(t, scene, {
      color: "#0b5d8a",
      homeUrl: "https://northsea.example/",
      story:
        "We make clothes for bad weather, in two small factories on the coast.\n\nEach jacket plants ten trees and rescues four bottles. This page shows what has been registered, and what has been verified since.",
      logo: await normalizeLogo(png),
    });
    for (const { name, width, colorScheme, ...shot } of SHOTS) {
      const { page } = await visit(t, browser, scene.page, { width, height: 900, colorScheme });
      if ("media" in shot) {
        await page.emulateMedia({ media: shot.media });
      }
      const size: unknown = await page.evaluate("document.documentElement.scrollHeight");
      const height = "height" in shot ? shot.height : z.number().parse(size);
      await page.screenshot({
        path: `${FOLDER}${name}.jpg`,
        type: "jpeg",
        quality: 45,
        fullPage: true,
        clip: { x: 0, y: 0, width, height },
      });
    }
    t.pass();
  });
}
