import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import {
  ConfigError,
  SECRET_SETTING_NAMES,
  SETTING_NAMES,
  parseConfig,
} from "../../runtime/config/config.ts";
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

test("an empty variable counts as not set, and a trailing slash of a URL is removed", (t) => {
  const PUBLIC_BASE_URL = "https://impact.example.org";
  const variables = { PORT: "", DATABASE_URL: "", PUBLIC_BASE_URL: `${PUBLIC_BASE_URL}/` };
  t.like(parseConfig(variables), { PORT: 8080, PUBLIC_BASE_URL });
});

test("every malformed setting, and every file that cannot be read, is reported with what it must be", (t) => {
  const settings = {
    PORT: "eighty",
    DATABASE_URL: "mysql://x",
    STRIPE_SECRET_KEY: "pk_oops",
    DATABASE_OWNER_URL_FILE: "/none",
    PLEDGE_API_KEY_FILE: "/",
  };
  const error = t.throws(() => parseConfig(settings), { instanceOf: ConfigError });
  const message = error?.message ?? "";
  t.regex(message, /PORT must be a port number/u);
  t.regex(message, /DATABASE_URL must be a URL like postgres:\/\//u);
  t.regex(message, /STRIPE_SECRET_KEY must be a Stripe secret/u);
  t.regex(message, /DATABASE_OWNER_URL_FILE must be/u);
  t.regex(message, /PLEDGE_API_KEY_FILE must be/u);
  t.notRegex(message, /pk_oops/u);
});

test("a malformed value is rejected, and the setting is named", (t) => {
  for (const [name, value] of [
    ["PORT", "65536"],
    ["PORT", "-1"],
    ["PORT", "80.5"],
    ["METRICS_PORT", "none"],
    ["PUBLIC_BASE_URL", "ftp://example.org"],
    ["TEMPORAL_ADDRESS", "http://localhost:7233"],
    ["DATABASE_POOL_SIZE", "1"],
    ["DRAIN_SECONDS", "2147484"],
    ["STRIPE_API_BASE", "http://api.stripe.com"],
    ["CHARITY_API_BASE", "http://127.0.0.1.example.org"],
    ["CHARITY_API_BASE", "http://localhost.example.org"],
    ["CHARITY_API_BASE", "http://10.0.0.1"],
    ["TREEMAPPER_API_BASE", "http://user@example.org"],
    ["PLANTING_CALLBACK_SECRET", "s".repeat(31)],
    ["PLANTING_CALLBACK_SECRET", Array(3).fill("s".repeat(32)).join(",")],
    ["LOG_LEVEL", "loud"],
    ["LOG_FORMAT", "xml"],
    ...["eu1west23", "1eu", "Eu1", "eu_1", "eu-1"].map((cell) => ["CELL", cell] as const),
  ] as const) {
    const message = new RegExp(name, "u");
    t.throws(() => parseConfig({ [name]: value }), { instanceOf: ConfigError, message }, value);
  }
  for (const cell of ["e", "eu1", "eu1west2"]) {
    t.is(parseConfig({ CELL: cell }).CELL, cell);
  }
  for (const host of ["localhost:1", "127.0.0.1:1", "127.1.2.3", "[::1]:1"]) {
    const url = `http://${host}`;
    t.is(parseConfig({ STRIPE_API_BASE: url }).STRIPE_API_BASE, url, "without encryption");
  }
});

const DATABASE_URL = "postgres://db.example.org/impact";

test("libpq's variables apply to every URL of the database", (t) => {
  const DATABASE_OWNER_URL = `${DATABASE_URL}?sslmode=require`;
  const config = parseConfig({ DATABASE_URL, DATABASE_OWNER_URL, PGSSLMODE: "disable" });
  t.is(config.DATABASE_URL, `${DATABASE_URL}?sslmode=disable`);
  t.is(config.DATABASE_OWNER_URL, DATABASE_OWNER_URL);
});

test("a malformed setting of TLS is a line that names the setting", (t) => {
  for (const [settings, message] of [
    [{ DATABASE_URL, PGSSLMODE: "on" }, /DATABASE_URL has an unknown sslmode/u],
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

  const files = { PGSSLROOTCERT: ca.certificate, PGSSLCERT: own.certificate, PGSSLKEY: own.key };
  t.notThrows(() => parseConfig({ DATABASE_URL, ...files }));
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

const readPage = (): Promise<string> =>
  readFile(new URL("../../docs/configuration.md", import.meta.url), "utf8");

test("docs/configuration.md documents every setting once with its default, and no other", async (t) => {
  const rows = (await readPage()).matchAll(/^\| `(?<name>[^`]+)` *\| (?<fallback>[^|]+?) *\|/gmu);
  const documented = [...rows].map(({ groups }) => `${groups?.["name"]}: ${groups?.["fallback"]}`);
  const defaults = new Map(Object.entries(parseConfig({})));
  const expected = SETTING_NAMES.map((name) => {
    const value = defaults.get(name);
    return `${name}: ${value === undefined ? "not set" : `\`${value}\``}`;
  });
  t.deepEqual(documented.toSorted(), expected.toSorted());
});

test("docs/configuration.md lists every setting that may be in a file", async (t) => {
  const text = await readPage();
  const listed = [...text.matchAll(/`(?<name>(?!TEMPORAL)[A-Z_]+?)_FILE`/gu)].map(
    ({ groups }) => groups?.["name"] ?? "",
  );
  t.deepEqual(listed.toSorted(), SECRET_SETTING_NAMES.toSorted());
});

const COMPOSE_ONLY = /^(?:(?:POSTGRES|OWNER|APP|TEMPORAL)_PASSWORD|PUBLISH_ADDRESS)$/u;

const readExample = async (): Promise<Readonly<Record<string, string>>> => {
  const text = await readFile(new URL("../../.env.example", import.meta.url), "utf8");
  const lines = text.matchAll(/^#(?<name>[A-Z_]+)=(?<value>.*)$/gmu);
  return Object.fromEntries([...lines].map(({ groups }) => [groups?.["name"], groups?.["value"]]));
};

test(".env.example lists every setting and no other", async (t) => {
  const names = Object.keys(await readExample()).filter((name) => !COMPOSE_ONLY.test(name));
  t.deepEqual(names.toSorted(), SETTING_NAMES.toSorted());
});

test("the values in .env.example are valid, and equal to the defaults if there are any", async (t) => {
  t.like(parseConfig(await readExample()), parseConfig({}));
});

test("doctor warns of names in .env that no program reads", async (t) => {
  const folder = await makeTestFolder(t);
  const misspelt = "PGSSLMOD, PORT_FILE, STRIPE_SECRET, TEMPORAL_ADRESS, TEST_REQUEST_PER_SECOND";
  const known = ["PORT", "STRIPE_SECRET_KEY_FILE", "PGPASSFILE", "OTEL_SERVICE_NAME", "TZ"];
  const text = [...known, ...misspelt.split(", ")].map((name) => `${name}=\n`).join("");
  await writeFile(join(folder, ".env"), text);
  const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
  const env = { ...process.env, DATABASE_URL: "postgres://127.0.0.1:1/impact" };

  const { stdout } = spawnSync(process.execPath, [main, "doctor", "--json"], { cwd: folder, env });

  const warning = `no program reads ${misspelt} in the file .env; .env.example lists all settings`;
  t.true(stdout.toString().includes(warning), stdout.toString());
});
