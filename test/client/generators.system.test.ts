import { execFile } from "node:child_process";
import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createTestStore } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { installPythonPackages } from "../support/installPythonPackages.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { startProgram } from "../support/programs.ts";

/*
 * Generates clients from both API descriptions with public generators, and uses them: `python/main.py` and `go/main.go` make
 * the same calls. They need Python with pip and venv, and Go.
 */

const test = testWithDatabase();

const run = promisify(execFile);

const INTERFACES = ["standalone", "store"] as const;

const COUNT = 3_000_000_000;

const EXPECTED = {
  standalone: {
    total: COUNT,
    replayed: true,
    found: [[COUNT, "1001"]],
    batch: ["TreeRegistrationSuccess", "ItemError"],
    refunded: [2, COUNT + 4],
    donated: [500, true, 1],
    donation_refunded: true,
    events: [
      "RegistrationCreatedEvent",
      "RegistrationCreatedEvent",
      "RegistrationCreatedEvent",
      "RegistrationRefundedEvent",
      "DonationCreatedEvent",
      "DonationRefundedEvent",
    ],
    counted: [COUNT, 5, 1],
    evidence: COUNT,
    stages: {
      registered: ["RegisteredEvidence"],
      funds_distributed: ["RegisteredEvidence", "FundsDistributedEvidence"],
      planted: [
        "RegisteredEvidence",
        "FundsDistributedEvidence",
        "AllocatedEvidence",
        "PlantedEvidence",
      ],
      planted_and_verified: [
        "RegisteredEvidence",
        "FundsDistributedEvidence",
        "PlantedAndVerifiedEvidence",
      ],
    },
    summary: true,
    usage: "pending",
    unknown_key: "invalid API key",
    invalid: "count: must be an integer of at least 1",
    not_found: "failed to find tree",
  },
  store: {
    verified: true,
    planted: [3, "#3"],
    donated: 1_234_567.89,
    pages: [[3, 2], [1]],
    reversed: 4,
    stats: [2, 1_234_567.89],
    evidence: 2,
    unknown_store: "INVALID_SHOP",
  },
};

type Client = {
  /** The folder of the program beside this file. */
  readonly language: string;
  /**
   * Generates the clients of both interfaces from `standalone.json` and `store.json` in the folder that the program was
   * copied to, and compiles them.
   * @returns the command that runs the program there
   */
  readonly build: (folder: string, source: string) => Promise<readonly [string, ...string[]]>;
};

const PYTHON: Client = {
  language: "python",
  build: async (folder, source) => {
    const programs = await installPythonPackages("generators", source);
    for (const name of INTERFACES) {
      await run(
        join(programs, "openapi-python-client"),
        ["generate", "--path", `${name}.json`, "--output-path", name].concat([
          "--meta=none",
          // It would leave out what it does not understand.
          "--fail-on-warning",
        ]),
        // It formats what it has generated with another program of its environment.
        { cwd: folder, env: { ...process.env, PATH: `${programs}:${process.env["PATH"] ?? ""}` } },
      );
    }
    return [join(programs, "python"), "main.py"];
  },
};

const GO: Client = {
  language: "go",
  build: async (folder) => {
    // Without the folder's path, Go finds what it has compiled for an earlier run.
    const options = { cwd: folder, env: { ...process.env, GOFLAGS: "-trimpath" } };
    for (const name of INTERFACES) {
      const target = ["--target", name, "--package", name];
      await run("go", ["tool", "ogen", ...target, `${name}.json`], options);
    }
    await run("go", ["build", "-o", "main", "."], options);
    return [join(folder, "main")];
  },
};

const startService = async (t: DatabaseTest) => {
  const { db, databaseUrl } = t.context;
  const organization = await createTestOrganization(db);
  const store = await createTestStore(db);
  const { urls } = await startProgram(t, "api/main.ts", { DATABASE_URL: databaseUrl });
  return {
    urls,
    environment: {
      IMPACT_URL: urls["standalone"] ?? "",
      IMPACT_API_KEY: organization.apiKeyTest,
      IMPACT_STORE_URL: urls["store"] ?? "",
      IMPACT_STORE_KEY: store.test["api_key"] ?? "",
      IMPACT_STORE_DOMAIN: store.domain,
    },
  };
};

const works = test.macro(async (t, { language, build }: Client) => {
  const { urls, environment } = await startService(t);
  const source = fileURLToPath(new URL(language, import.meta.url));
  const folder = await makeTestFolder(t);
  await cp(source, folder, { recursive: true });
  for (const name of INTERFACES) {
    const response = await fetch(`${urls[name]}/openapi.json`);
    await writeFile(join(folder, `${name}.json`), await response.text());
  }

  const [program, ...args] = await build(folder, source);
  const env = { ...process.env, ...environment };
  const { stdout } = await run(program, args, { cwd: folder, env });

  t.deepEqual(JSON.parse(stdout), EXPECTED);
});

test("the Python clients of openapi-python-client have every operation and work", works, PYTHON);

test("the Go clients of ogen have every operation and work", works, GO);
