import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { z } from "zod";
import { readRunFile } from "../../runtime/runFile.ts";
import { buildEnvironment, START } from "../embedded/runStart.ts";
import { installPythonPackages } from "../support/installPythonPackages.ts";

/*
 * npm run fuzz: Schemathesis generates requests from both API descriptions, valid and invalid ones, and sends them to a
 * service of this run: `npm start` in a temporary folder, on free ports. Ends with code 1 if a response breaks what the
 * description promises, unless checks.py has an exception for it.
 */

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const STORE_DOMAIN = "fuzz.example.com";

const { values } = parseArgs({
  options: {
    /** How long requests are sent, to both interfaces at the same time. */
    seconds: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
  },
});

const run = promisify(execFile);

const startService = async (dataDir: string) => {
  const env = buildEnvironment(dataDir, { LOG_LEVEL: "error" });
  const service = spawn(process.execPath, [START], { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(service, "exit");
  for await (const line of createInterface({ input: service.stdout })) {
    if (line === "ready") {
      break;
    }
  }
  service.stdout.resume();
  const urls = await readRunFile(dataDir);
  if (urls === null) {
    throw new Error("The service did not start.");
  }
  return {
    urls,
    impact: async (args: readonly string[]): Promise<unknown> => {
      const { stdout } = await run(
        process.execPath,
        [join(ROOT, "cli/impact.js"), ...args, "--json"],
        { env },
      );
      return JSON.parse(stdout);
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      service.kill("SIGTERM");
      await ended;
    },
  };
};

/** Fuzzes one interface and returns what Schemathesis printed, and whether it found nothing. */
const fuzz = async (
  program: string,
  folder: string,
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<{ readonly isGood: boolean; readonly report: string }> => {
  // Schemathesis stores failing requests in its working folder, and sends them first in the next run.
  await mkdir(folder);
  const options: Readonly<Record<string, string>> = {
    "--seed": values.seed,
    "--max-time": values.seconds,
    "--checks": "all",
    // Replaced in checks.py.
    "--exclude-checks": "positive_data_acceptance,negative_data_rejection,missing_required_header",
    "--warnings": "off",
  };
  const sent = Object.entries(headers).map(([name, value]) => ["--header", `${name}: ${value}`]);
  const args = [...Object.entries(options), ...sent].flat();
  const hooks = { SCHEMATHESIS_HOOKS: join(HERE, "checks.py"), PYTHONDONTWRITEBYTECODE: "1" };
  const child = spawn(
    program,
    ["--no-color", "run", `${url}/openapi.json`, "--continue-on-failure", ...args],
    {
      cwd: folder,
      env: { ...process.env, ...hooks },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const ended = once(child, "exit");
  const report = await text(child.stdout);
  const [code] = await ended;
  return { isGood: code === 0, report };
};

const keys = z.looseObject({ api_key_test: z.string() });

const main = async (): Promise<void> => {
  const program = join(await installPythonPackages("fuzz", HERE), "schemathesis");
  await using folder = await mkdtempDisposable(join(tmpdir(), "impact-fuzz-"));
  await using service = await startService(join(folder.path, "data"));
  const organization = keys.parse(await service.impact(["org", "create", "--name", "Fuzz"]));
  const store = keys.parse(await service.impact(["store", "create", "--domain", STORE_DOMAIN]));
  const { apiUrl, storeUrl } = service.urls;
  const results = await Promise.all([
    fuzz(program, join(folder.path, "standalone"), apiUrl, {
      Authorization: organization.api_key_test,
    }),
    fuzz(program, join(folder.path, "store"), storeUrl, {
      api_key: store.api_key_test,
      shop_name: STORE_DOMAIN,
    }),
  ]);
  for (const { report } of results) {
    console.log(report);
  }
  process.exitCode = results.every(({ isGood }) => isGood) ? 0 : 1;
};

await main();
