import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { ConfigError, parseConfig } from "../../config/config.ts";
import { createTestCa } from "../support/createTestCa.ts";

const DATABASE_URL = "postgres://db.example.org/impact";

test("libpq's variables apply to every URL of the database", (t) => {
  const config = parseConfig({
    DATABASE_URL,
    DATABASE_OWNER_URL: `${DATABASE_URL}?sslmode=require`,
    PGSSLMODE: "disable",
  });
  t.is(config.DATABASE_URL, `${DATABASE_URL}?sslmode=disable`);
  t.is(config.DATABASE_OWNER_URL, `${DATABASE_URL}?sslmode=require`);
  t.is(config.DATABASE_READER_URL, undefined);
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
  const folder = await mkdtemp(join(tmpdir(), "tls-files-"));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
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
