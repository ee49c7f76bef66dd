import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import type { ExecutionContext } from "ava";
import { z } from "zod";

/** The system's browser; the tests download none. */
const BROWSER = process.env["TEST_CHROMIUM"] ?? "/usr/bin/chromium";

export const openBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-gpu"] });

export type View = {
  readonly width: number;
  readonly height: number;
  readonly colorScheme?: "light" | "dark";
  readonly javaScript?: boolean;
};

/** Opens a URL and waits until everything is loaded, including lazy pictures. */
export const visit = async (t: ExecutionContext, browser: Browser, url: string, view: View) => {
  const context = await browser.newContext({
    viewport: { width: view.width, height: view.height },
    colorScheme: view.colorScheme ?? "light",
    javaScriptEnabled: view.javaScript ?? true,
    reducedMotion: "reduce",
  });
  t.teardown(() => context.close());
  const page = await context.newPage();
  /** Console errors and warnings, and failed requests. */
  const problems: string[] = [];
  const origins = new Set<string>();
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") {
      problems.push(message.text());
    }
  });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("requestfailed", (request) => problems.push(`failed: ${request.url()}`));
  page.on("response", (response) => {
    if (response.status() >= 400) {
      problems.push(`${response.status()}: ${response.url()}`);
    }
  });
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  await page.goto(url, { waitUntil: "load" });
  for (const picture of await page.locator("img").all()) {
    await picture.scrollIntoViewIfNeeded();
  }
  await page.waitForLoadState("networkidle");
  return { page, problems, origins };
};

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

const violations = z.array(
  z.object({ id: z.string(), nodes: z.array(z.object({ html: z.string() })) }),
);

export const auditAccessibility = async (page: Page): Promise<readonly string[]> => {
  // Not as a script element, because the page's Content-Security-Policy forbids it.
  await page.evaluate(AXE);
  const found: unknown = await page.evaluate(
    "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((result) => result.violations)",
  );
  return violations
    .parse(found)
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
};
