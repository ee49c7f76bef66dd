import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { ConfigError, parseConfig } from "../../config/config.ts";
import { SECRET_SETTING_NAMES } from "../../config/readSecretFiles.ts";

test("a secret is read from a file, without the line feed at its end", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "secrets-"));
  t.teardown(() => rm(folder, { recursive: true }));
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

test("docs/configuration.md lists every setting that may be in a file", async (t) => {
  const text = await readFile(new URL("../../docs/configuration.md", import.meta.url), "utf8");
  const listed = [...text.matchAll(/`(?<name>(?!TEMPORAL)[A-Z_]+?)_FILE`/gu)].map(
    ({ groups }) => groups?.["name"] ?? "",
  );
  t.deepEqual(listed.toSorted(), SECRET_SETTING_NAMES.toSorted());
});
