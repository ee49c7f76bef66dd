import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { makeTestFolder } from "../support/makeTestFolder.ts";

const findings = z.array(z.object({ check: z.string(), status: z.string(), detail: z.string() }));

/** Runs doctor in a folder with a file `.env`, and returns what it says of the file. */
const diagnose = async (t: ExecutionContext, settings: string) => {
  const folder = await makeTestFolder(t);
  await writeFile(join(folder, ".env"), settings);
  const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
  const stdout = await new Promise<string>((resolve) => {
    const env = { ...process.env, DATABASE_URL: "postgres://127.0.0.1:1/impact" };
    // No database runs there, so the exit code is 1.
    execFile(process.execPath, [main, "doctor", "--json"], { cwd: folder, env }, (_error, output) =>
      resolve(output),
    );
  });
  return findings.parse(JSON.parse(stdout)).find(({ check }) => check === "names in .env");
};

test("doctor warns of names in .env that no program reads", async (t) => {
  const found = await diagnose(t, "STRIPE_SECRET=sk_test_x\nLIVE_REQUEST_PER_SECOND=5\nPORT=0\n");
  t.is(found?.status, "warning");
  t.regex(found?.detail ?? "", /no program reads LIVE_REQUEST_PER_SECOND, STRIPE_SECRET in/u);
});

test("doctor warns of misspelt names of other programs, and of files of settings that have none", async (t) => {
  const names = [
    "PGSSLMOD",
    "PORT_FILE",
    "TEMPORAL_ADRESS",
    "TEST_REQUEST_PER_SECOND",
    "TZDATA",
    "LANGUAGES",
  ];
  const found = await diagnose(t, names.map((name) => `${name}=\n`).join(""));
  t.is(found?.status, "warning");
  for (const name of names) {
    t.true(found?.detail.includes(name), name);
  }
});

test("names of Docker Compose, of other programs and of files with secrets are known", async (t) => {
  const settings = [
    "APP_PASSWORD",
    "UI_PUBLISH_ADDRESS",
    "PGSSLMODE",
    "OTEL_SERVICE_NAME",
    "TEMPORAL_TLS",
    "TEST_TEMPORAL_ADDRESS",
    "LC_ALL",
    "TZ",
    "NODE_OPTIONS",
    "no_proxy",
    "STRIPE_SECRET_KEY_FILE",
  ];
  const found = await diagnose(t, settings.map((name) => `${name}=\n`).join(""));
  t.is(found?.status, "ok");
});
