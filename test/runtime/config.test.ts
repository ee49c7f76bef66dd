import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { ConfigError, SETTING_NAMES, parseConfig } from "../../runtime/config/config.ts";
import { SECRET_SETTING_NAMES } from "../../runtime/config/readSecretFiles.ts";
import { createTestCa } from "../support/createTestCa.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";

test("by default the service listens on the loopback interface and uses embedded servers", (t) => {
  t.like(parseConfig({}), {
    HOST: "127.0.0.1",
    PORT: 8080,
    STORE_PORT: 8081,
    DATA_DIR: "./.data",
    DATABASE_URL: undefined,
    TEMPORAL_ADDRESS: undefined,
    STRIPE_SECRET_KEY: undefined,
    STRIPE_API_BASE: "https://api.stripe.com",
  });
});

test("an empty variable counts as not set", (t) => {
  t.is(parseConfig({ PORT: "", DATABASE_URL: "" }).PORT, 8080);
});

test("a trailing slash of a URL is removed", (t) => {
  t.is(
    parseConfig({ PUBLIC_BASE_URL: "https://impact.example.org/" }).PUBLIC_BASE_URL,
    "https://impact.example.org",
  );
});

test("every malformed setting is reported with what it must be", (t) => {
  const error = t.throws(
    () => parseConfig({ PORT: "eighty", DATABASE_URL: "mysql://x", STRIPE_SECRET_KEY: "pk_oops" }),
    { instanceOf: ConfigError },
  );
  t.regex(error?.message ?? "", /PORT must be a port number/u);
  t.regex(error?.message ?? "", /DATABASE_URL must be a URL like postgres:\/\//u);
  t.regex(error?.message ?? "", /STRIPE_SECRET_KEY must be a Stripe secret/u);
  t.notRegex(error?.message ?? "", /pk_oops/u);
});

const rejects = test.macro({
  exec: (t, name: string, value: string) => {
    t.throws(() => parseConfig({ [name]: value }), {
      instanceOf: ConfigError,
      message: new RegExp(name, "u"),
    });
  },
  title: (_, name, value) => `${String(name)}=${String(value)} is rejected`,
});

test(rejects, "PORT", "65536");
test(rejects, "PORT", "-1");
test(rejects, "PORT", "80.5");
test(rejects, "METRICS_PORT", "none");
test(rejects, "PUBLIC_BASE_URL", "ftp://example.org");
test(rejects, "TEMPORAL_ADDRESS", "http://localhost:7233");
test(rejects, "DATABASE_POOL_SIZE", "1");
test(rejects, "DRAIN_SECONDS", "2147484");
test(rejects, "STRIPE_API_BASE", "http://api.stripe.com");
test(rejects, "CHARITY_API_BASE", "http://127.0.0.1.example.org");
test(rejects, "CHARITY_API_BASE", "http://localhost.example.org");
test(rejects, "CHARITY_API_BASE", "http://10.0.0.1");
test(rejects, "TREEMAPPER_API_BASE", "http://user@example.org");
test(rejects, "PLANTING_CALLBACK_SECRET", "s".repeat(31));
test(rejects, "PLANTING_CALLBACK_SECRET", Array(3).fill("s".repeat(32)).join(","));
test(rejects, "LOG_LEVEL", "loud");
test(rejects, "LOG_FORMAT", "xml");

for (const [cell, isAccepted] of [
  ["e", true],
  ["eu1", true],
  ["eu1west2", true],
  ["", true],
  ["eu1west23", false],
  ["1eu", false],
  ["Eu1", false],
  ["eu_1", false],
  ["eu-1", false],
] as const) {
  test(`CELL=${cell} is ${isAccepted ? "accepted" : "rejected with what it must be"}`, (t) => {
    if (isAccepted) {
      t.is(parseConfig({ CELL: cell }).CELL, cell === "" ? undefined : cell);
    } else {
      t.throws(() => parseConfig({ CELL: cell }), {
        instanceOf: ConfigError,
        message: /CELL must be one to eight lower-case letters and digits, a letter first/u,
      });
    }
  });
}

test("an API on this machine may be without encryption", (t) => {
  for (const url of [
    "http://localhost:1",
    "http://127.0.0.1:1",
    "http://127.1.2.3",
    "http://[::1]:1",
  ]) {
    t.is(parseConfig({ STRIPE_API_BASE: url }).STRIPE_API_BASE, url);
  }
});

const DATABASE_URL = "postgres://db.example.org/impact";

test("libpq's variables apply to every URL of the database", (t) => {
  const config = parseConfig({
    DATABASE_URL,
    DATABASE_OWNER_URL: `${DATABASE_URL}?sslmode=require`,
    PGSSLMODE: "disable",
  });
  t.is(config.DATABASE_URL, `${DATABASE_URL}?sslmode=disable`);
  t.is(config.DATABASE_OWNER_URL, `${DATABASE_URL}?sslmode=require`);
});

test("a malformed setting of TLS is a line that names the setting", (t) => {
  for (const [settings, message] of [
    [{ DATABASE_URL: `${DATABASE_URL}?sslmode=on` }, /DATABASE_URL has an unknown sslmode/u],
    [{ DATABASE_URL, PGSSLMODE: "on" }, /PGSSLMODE must be one of disable, require/u],
    [{ DATABASE_URL, PGSSLMODE: "prefer" }, /DATABASE_URL has sslmode=prefer/u],
    [{ DATABASE_URL, PGSSLROOTCERT: "/nowhere" }, /DATABASE_URL has sslrootcert.*ENOENT/u],
    [{ DATABASE_URL, PGSSLCERT: "/nowhere" }, /only one of sslcert and sslkey/u],
    [{ DATABASE_URL, PGTARGETSESSIONATTRS: "standby" }, /target_session_attrs/u],
  ] as const) {
    t.throws(() => parseConfig(settings), { instanceOf: ConfigError, message });
  }
});

test("the files of TLS must hold certificates and the certificate's key", async (t) => {
  const folder = await makeTestFolder(t);
  const ca = createTestCa(folder);
  const [own, other] = [ca.issue("impact"), ca.issue("other")];
  const malformed = join(folder, "malformed.pem");
  await writeFile(malformed, "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n");

  t.notThrows(() =>
    parseConfig({
      DATABASE_URL,
      PGSSLROOTCERT: ca.certificate,
      PGSSLCERT: own.certificate,
      PGSSLKEY: own.key,
    }),
  );
  for (const settings of [
    { PGSSLCERT: own.certificate, PGSSLKEY: other.key },
    { PGSSLCERT: malformed, PGSSLKEY: own.key },
    { PGSSLROOTCERT: malformed },
  ]) {
    t.throws(() => parseConfig({ DATABASE_URL, ...settings }), {
      instanceOf: ConfigError,
      message: /must be PEM files/u,
    });
  }
});

test("a secret is read from a file, without the line feed at its end", async (t) => {
  const folder = await makeTestFolder(t);
  const path = join(folder, "key");
  await writeFile(path, "sk_test_1\n");
  t.is(parseConfig({ STRIPE_SECRET_KEY_FILE: path }).STRIPE_SECRET_KEY, "sk_test_1");
  t.throws(() => parseConfig({ STRIPE_SECRET_KEY_FILE: path, STRIPE_SECRET_KEY: "sk_test_2" }), {
    instanceOf: ConfigError,
    message: /STRIPE_SECRET_KEY and STRIPE_SECRET_KEY_FILE are both set/u,
  });
});

test("every file that cannot be read is reported with the other malformed settings", (t) => {
  const error = t.throws(
    () => parseConfig({ PORT: "x", DATABASE_URL_FILE: "/none", PLEDGE_API_KEY_FILE: "/" }),
    { instanceOf: ConfigError },
  );
  for (const name of ["PORT", "DATABASE_URL_FILE", "PLEDGE_API_KEY_FILE"]) {
    t.regex(error?.message ?? "", new RegExp(`${name} must be`, "u"));
  }
});

const readPage = (): Promise<string> =>
  readFile(new URL("../../docs/configuration.md", import.meta.url), "utf8");

/** Returns the rows of the page's tables: each setting with what its default column says. */
const readDocumented = async (): Promise<readonly (readonly [string, string])[]> => {
  const text = await readPage();
  const rows = text.matchAll(/^\| `(?<name>[^`]+)` *\| (?<fallback>[^|]+?) *\|/gmu);
  return [...rows].map(({ groups }) => [groups?.["name"] ?? "", groups?.["fallback"] ?? ""]);
};

test("docs/configuration.md documents every setting once, and no other", async (t) => {
  const names = (await readDocumented()).map(([name]) => name);
  t.deepEqual(names.toSorted(), SETTING_NAMES.toSorted());
});

test("docs/configuration.md states every default", async (t) => {
  const defaults = new Map(Object.entries(parseConfig({})));
  const expected = SETTING_NAMES.map((name) => {
    const value = defaults.get(name);
    return [name, value === undefined ? "not set" : `\`${value}\``] as const;
  });
  t.deepEqual(Object.fromEntries(await readDocumented()), Object.fromEntries(expected));
});

test("docs/configuration.md lists every setting that may be in a file", async (t) => {
  const text = await readPage();
  const listed = [...text.matchAll(/`(?<name>(?!TEMPORAL)[A-Z_]+?)_FILE`/gu)].map(
    ({ groups }) => groups?.["name"] ?? "",
  );
  t.deepEqual(listed.toSorted(), SECRET_SETTING_NAMES.toSorted());
});

const COMPOSE_ONLY = new Set([
  "POSTGRES_PASSWORD",
  "OWNER_PASSWORD",
  "APP_PASSWORD",
  "TEMPORAL_PASSWORD",
  "PUBLISH_ADDRESS",
]);

const readExample = async (): Promise<Readonly<Record<string, string>>> => {
  const text = await readFile(new URL("../../.env.example", import.meta.url), "utf8");
  const lines = text.matchAll(/^#(?<name>[A-Z_]+)=(?<value>.*)$/gmu);
  return Object.fromEntries([...lines].map(({ groups }) => [groups?.["name"], groups?.["value"]]));
};

test(".env.example lists every setting and no other", async (t) => {
  const names = Object.keys(await readExample()).filter((name) => !COMPOSE_ONLY.has(name));
  t.deepEqual(names.toSorted(), SETTING_NAMES.toSorted());
});

test("the values in .env.example are valid, and equal to the defaults if there are any", async (t) => {
  const shown = parseConfig(await readExample());
  t.like(shown, parseConfig({}));
});

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
