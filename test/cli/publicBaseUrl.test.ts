import { z } from "zod";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { readJson, runImpact } from "./runImpact.ts";

const test = testWithDatabase();

const shown = z.looseObject({ dashboard_url: z.string() });

const linksTo = test.macro({
  exec: async (t, settings: Readonly<Record<string, string>>, url: string) => {
    const { id } = await createTestOrganization(t.context.db);
    const run = await runImpact(["org", "show", id, "--json"], {
      env: { DATABASE_URL: t.context.databaseUrl, ...settings },
    });
    t.is(new URL(shown.parse(readJson(run)).dashboard_url).origin, url);
  },
  title: (_, settings, url) => `with ${JSON.stringify(settings)} links start with ${String(url)}`,
});

test(linksTo, {}, "http://127.0.0.1:8080");
test(linksTo, { HOST: "0.0.0.0" }, "http://localhost:8080");
test(linksTo, { HOST: "::", PORT: "9000" }, "http://localhost:9000");
test(linksTo, { HOST: "0.0.0.0.example" }, "http://0.0.0.0.example:8080");
test(
  linksTo,
  { HOST: "0.0.0.0", PUBLIC_BASE_URL: "https://impact.example.org" },
  "https://impact.example.org",
);
