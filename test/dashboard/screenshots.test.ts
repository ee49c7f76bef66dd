import { readdir, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { fillDemo } from "../../embedded/demo/fillDemo.ts";
import { createDemoPlanting } from "../../embedded/demo/createDemoPlanting.ts";
import {
  getCertificateToken,
  getOrderCertificateToken,
} from "../../services/dashboard/getCertificateToken.ts";
import { getDashboardSlug } from "../../services/dashboard/getDashboardSlug.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { openBrowser, visit } from "./browser.ts";

/*
 * The pictures of the public pages in docs/images, with the data of `npm start -- --demo`. `npm run screenshots` takes them again; look at them before you commit
 * them.
 */

const test = testWithDatabase();

const FOLDER = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const NOW = "2026-06-05T10:00:00.000Z";
const MAXIMUM_BYTES = 1.5 * 1024 * 1024;

type Shot = {
  readonly name: string;
  readonly of: "page" | "certificate" | "order" | "card";
  readonly width: number;
  readonly colorScheme: "light" | "dark";
  readonly media?: "print";
  readonly height?: number;
};

/** The width of A4 at 96 pixels an inch. */
const PAPER = 794;

const SHOTS: readonly Shot[] = [
  { name: "page-desktop-light", of: "page", width: 1280, colorScheme: "light" },
  { name: "page-desktop-dark", of: "page", width: 1280, colorScheme: "dark" },
  { name: "page-phone-light", of: "page", width: 360, colorScheme: "light" },
  { name: "page-phone-dark", of: "page", width: 360, colorScheme: "dark" },
  { name: "page-printed", of: "page", width: PAPER, colorScheme: "dark", media: "print" },
  { name: "page-top", of: "page", width: 1280, colorScheme: "light", height: 860 },
  { name: "certificate-desktop-light", of: "certificate", width: 1280, colorScheme: "light" },
  { name: "certificate-phone-dark", of: "certificate", width: 360, colorScheme: "dark" },
  {
    name: "certificate-printed",
    of: "certificate",
    width: PAPER,
    colorScheme: "light",
    media: "print",
  },
  { name: "certificate-order", of: "order", width: 360, colorScheme: "light" },
  { name: "card-light", of: "card", width: 320, colorScheme: "light", height: 200 },
  { name: "card-dark", of: "card", width: 320, colorScheme: "dark", height: 200 },
];

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
    const { db } = t.context;
    const clock = createMovableClock(NOW);
    const planting = createDemoPlanting();
    const { data } = await fillDemo({ db, planting, now: clock.now() });
    const { url } = await startStandaloneApi(t, {
      db,
      clock,
      planting,
      publicBaseUrl: "https://impact.example",
    });
    const slug = await getDashboardSlug({ db, clock }, data.organizationId);
    const owner = { accountId: data.organizationId, mode: "live" } as const;
    const { id } = data.records.find(({ label }) => label === "verified") ?? { id: "" };
    const verified = await getCertificateToken({ db, clock }, owner, id, null);
    const store = { accountId: data.storeId, mode: "live" } as const;
    const order = await getOrderCertificateToken({ db, clock }, store, data.storeOrder);
    const paths = {
      page: `/dashboard/${slug}`,
      card: `/dashboard/${slug}/card`,
      certificate: `/certificate/${verified}`,
      order: `/certificate/${order}`,
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
}
