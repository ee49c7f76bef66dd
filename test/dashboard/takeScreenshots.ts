import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { z } from "zod";
import {
  buildEnvironment,
  makeDataDir,
  START,
  waitUntilReady,
  watch,
} from "../embedded/runStart.ts";
import { openBrowser, visit } from "./browser.ts";
import { SHOTS } from "./screenshots.ts";

/* `npm run screenshots`: takes the pictures in docs/images from `npm start -- --demo`. Review them before a commit. */

const FOLDER = fileURLToPath(new URL("../../docs/images/", import.meta.url));

/** Further down are photos, which take most of the bytes. */
const MAXIMUM_HEIGHT = 2820;

test("screenshots are taken", async (t) => {
  const browser = await openBrowser();
  t.teardown(() => browser.close());
  const folder = await makeDataDir(t);
  // The pictures show the default folder and ports.
  const demo = spawn(process.execPath, [START, "--demo"], {
    cwd: folder,
    env: buildEnvironment(".data", { PORT: "8080", STORE_PORT: "8081" }),
  });
  const watched = watch(t, demo);
  const { apiUrl } = await waitUntilReady(watched, join(folder, ".data/demo"));
  const { page: tour } = await visit(t, browser, `${apiUrl}/`, { width: 1280, height: 900 });
  const linkTo = async (name: string): Promise<string> =>
    `${apiUrl}${await tour.getByRole("link", { name }).getAttribute("href")}`;
  const urls = {
    demo: `${apiUrl}/`,
    shop: await linkTo("A sample shop"),
    page: await linkTo("The public page"),
    certificate: await linkTo("A certificate"),
  };
  for (const { name, of, width, colorScheme, ...shot } of SHOTS) {
    const view = { width, height: shot.height ?? 900, colorScheme };
    const { page: shown } = await visit(t, browser, urls[of], view);
    if (shot.media !== undefined) {
      await shown.emulateMedia({ media: shot.media });
    }
    const size: unknown = await shown.evaluate("document.documentElement.scrollHeight");
    const height = shot.height ?? Math.min(z.number().parse(size), MAXIMUM_HEIGHT);
    await shown.screenshot({
      path: `${FOLDER}${name}.jpg`,
      type: "jpeg",
      quality: 40,
      fullPage: true,
      clip: { x: 0, y: 0, width, height },
    });
  }
  // The end of the test kills only the start, and its servers would stay.
  demo.kill("SIGTERM");
  t.is(await watched.exitCode, 0);
});
