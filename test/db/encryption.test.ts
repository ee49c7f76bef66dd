import anyTest from "ava";
import type { TestFn } from "ava";
import { z } from "zod";
import { createConnect } from "../../db/connections/connect.ts";
import { describeEncryption } from "../../runtime/config/databaseUrl.ts";
import { openPool } from "../../db/pools/pool.ts";
import { sql } from "../../db/sql.ts";
import { runImpact } from "../cli/runImpact.ts";
import { startTlsPostgres } from "../support/startTlsPostgres.ts";
import { createTestCa } from "../support/createTestCa.ts";

/* Connections to a PostgreSQL server whose certificate is of a CA that the test makes. The tests change the server. */

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- ava types the context only by a cast.
const test = anyTest as TestFn<Awaited<ReturnType<typeof startTlsPostgres>>>;

test.serial.before(async (t) => {
  t.context = await startTlsPostgres();
});

test.after.always(async (t) => {
  await t.context.stop();
});

const connect = (url: string) => createConnect(url)({ connectionTimeoutMillis: 15_000 });

/** Returns the URL with another host and with parameters. */
const urlWith = (url: string, host: string, parameters: Readonly<Record<string, string>> = {}) => {
  const changed = new URL(url);
  changed.hostname = host;
  changed.search = new URLSearchParams(parameters).toString();
  return changed.href;
};

/** Returns whether the server says that a pool's connection is encrypted. */
const isEncrypted = async (url: string): Promise<boolean> => {
  const db = await openPool(url, 1);
  try {
    return await db.oneFirst(sql.type(z.strictObject({ ssl: z.boolean() }))`
      SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()
    `);
  } finally {
    await db.end();
  }
};

test.serial("every connection verifies the certificate and the host name", async (t) => {
  const { ca, appUrl, configure } = t.context;
  await configure(ca.issue("server", { names: ["DNS:localhost"] }), "tls");
  const url = urlWith(appUrl, "localhost", { sslmode: "verify-full", sslrootcert: ca.certificate });

  t.true(await isEncrypted(url));
  t.is(describeEncryption(url), "encrypted, certificate and host name verified");

  // An address that is not in the certificate.
  const addressWith = (sslmode: string): string =>
    urlWith(appUrl, "127.0.0.1", { sslmode, sslrootcert: ca.certificate });
  await t.throwsAsync(connect(addressWith("verify-full")), {
    message: /127\.0\.0\.1.*use a name of the certificate/su,
  });
  const verifiesCa = addressWith("verify-ca");
  t.true(await isEncrypted(verifiesCa));
  t.regex(describeEncryption(verifiesCa), /, certificate verified, host name not verified$/u);
});

test.serial("a certificate of another CA is rejected unless nothing is verified", async (t) => {
  const { ca, appUrl, configure } = t.context;
  const other = createTestCa(t.context.folder);
  await configure(ca.issue("server", { names: ["DNS:localhost"] }), "tls");

  for (const sslmode of ["verify-full", "verify-ca", "require"]) {
    const url = urlWith(appUrl, "localhost", { sslmode, sslrootcert: other.certificate });
    await t.throwsAsync(connect(url), { message: /certificate.*; set sslrootcert to/u });
  }
  // Without sslrootcert, the CAs that Node knows are trusted.
  await t.throwsAsync(connect(urlWith(appUrl, "localhost", { sslmode: "verify-full" })), {
    message: /certificate.*; set sslrootcert to/u,
  });
  const unverified = urlWith(appUrl, "localhost", { sslmode: "require" });
  t.true(await isEncrypted(unverified));
  t.regex(describeEncryption(unverified), /, certificate not verified; sslmode=verify-full/u);
});

test.serial("an expired certificate is rejected", async (t) => {
  const { ca, appUrl, configure } = t.context;
  await configure(ca.issue("server", { names: ["DNS:localhost"], isExpired: true }), "tls");

  const url = urlWith(appUrl, "localhost", { sslmode: "verify-ca", sslrootcert: ca.certificate });
  await t.throwsAsync(connect(url), { message: /expired; renew/u });
});

test.serial("a client certificate is presented by every connection", async (t) => {
  const { ca, appUrl, configure } = t.context;
  await configure(ca.issue("server", { names: ["DNS:localhost"] }), "clientCertificate");
  const own = ca.issue(new URL(appUrl).username);
  const parameters = { sslmode: "verify-full", sslrootcert: ca.certificate };

  await t.throwsAsync(connect(urlWith(appUrl, "localhost", parameters)), {
    message: /valid client certificate/u,
  });
  const url = urlWith(appUrl, "localhost", {
    ...parameters,
    sslcert: own.certificate,
    sslkey: own.key,
  });
  t.true(await isEncrypted(url));
  t.regex(describeEncryption(url), /, with a client certificate, /u);
});

test.serial("plain text leaves this machine only with sslmode=disable", async (t) => {
  const { ca, appUrl, configure } = t.context;
  // The system connects to this machine; the service does not know that.
  const url = urlWith(appUrl, "0.0.0.0");
  await configure(null);
  await t.throwsAsync(connect(url), {
    message: /does not support SSL connections; .*sslmode=disable/u,
  });
  const plain = urlWith(appUrl, "0.0.0.0", { sslmode: "disable" });
  t.false(await isEncrypted(plain));
  t.is(describeEncryption(plain), "plain text");
  t.false(await isEncrypted(appUrl));

  await configure(ca.issue("server"), "tls");
  t.true(await isEncrypted(url));
  await t.throwsAsync(connect(plain), { message: /no encryption/u });
});

test.serial("libpq's variables encrypt, and doctor says how", async (t) => {
  const { ca, appUrl, configure } = t.context;
  await configure(ca.issue("server", { names: ["DNS:localhost"] }), "tls");
  const verified = { PGSSLMODE: "verify-full", PGSSLROOTCERT: ca.certificate };
  const env = { ...verified, DATABASE_URL: urlWith(appUrl, "localhost") };
  const { stdout } = await runImpact(["doctor", "--json"], { env });
  t.regex(stdout, /encrypted, certificate and host name verified/u);
});
