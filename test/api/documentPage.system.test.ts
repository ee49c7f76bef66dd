import { auditAccessibility, openBrowser, visit } from "../dashboard/browser.ts";
import { testWithDatabase } from "../support/database.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

test("the page of the API description follows the visitor's color scheme, and all text has contrast", async (t) => {
  const browser = await openBrowser();
  t.teardown(() => browser.close());
  const { url } = await startStandaloneApi(t, t.context);

  for (const colorScheme of ["light", "dark"] as const) {
    const view = { width: 1280, height: 900, colorScheme };
    const { page, problems } = await visit(t, browser, `${url}/docs`, view);
    for (const operation of ["registerTrees", "listTrees"]) {
      await page.locator(`#operations-trees-${operation} .opblock-summary-control`).click();
      await page
        .locator(`#operations-trees-${operation} .opblock-body .responses-wrapper`)
        .waitFor();
    }
    const isDark = await page.evaluate("document.documentElement.matches('.dark-mode')");
    const violations = await auditAccessibility(page);

    t.is(isDark, colorScheme === "dark");
    t.deepEqual(problems, [], colorScheme);
    t.deepEqual(
      violations.filter((violation) => violation.startsWith("color-contrast")),
      [],
      colorScheme,
    );
  }
});
