import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import type { ExecutionContext } from "ava";
import { z } from "zod";

/** The system's own browser: none is downloaded for the tests. */
const BROWSER = process.env["TEST_CHROMIUM"] ?? "/usr/bin/chromium";

export const openBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-gpu"] });

export type Visit = {
  readonly page: Page;
  /** What the console and the network had to complain of. */
  readonly complaints: readonly string[];
  /** Origins that were asked for anything. */
  readonly origins: ReadonlySet<string>;
};

/** Opens an address as a visitor does and waits until all has been loaded, pictures below the fold included. */
export const visit = async (
  t: ExecutionContext,
  browser: Browser,
  address: string,
  look: {
    readonly width: number;
    readonly height: number;
    readonly colorScheme?: "light" | "dark";
    readonly javaScript?: boolean;
  },
): Promise<Visit> => {
  const context = await browser.newContext({
    viewport: { width: look.width, height: look.height },
    colorScheme: look.colorScheme ?? "light",
    javaScriptEnabled: look.javaScript ?? true,
    reducedMotion: "reduce",
  });
  t.teardown(() => context.close());
  const page = await context.newPage();
  const complaints: string[] = [];
  const origins = new Set<string>();
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") {
      complaints.push(message.text());
    }
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("requestfailed", (request) => complaints.push(`failed: ${request.url()}`));
  page.on("response", (response) => {
    if (response.status() >= 400) {
      complaints.push(`${response.status()}: ${response.url()}`);
    }
  });
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  await page.goto(address, { waitUntil: "load" });
  for (const picture of await page.locator("img").all()) {
    await picture.scrollIntoViewIfNeeded();
  }
  await page.waitForLoadState("networkidle");
  return { page, complaints, origins };
};

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

const violations = z.array(
  z.object({ id: z.string(), nodes: z.array(z.object({ html: z.string() })) }),
);

/** What is wrong for people who see, hear or move otherwise, as axe finds it. */
export const auditAccessibility = async (page: Page): Promise<readonly string[]> => {
  // Not as a script element, which the page's own policy forbids.
  await page.evaluate(AXE);
  const found: unknown = await page.evaluate(
    "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((result) => result.violations)",
  );
  return violations
    .parse(found)
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
};
