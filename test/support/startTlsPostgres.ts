import { chmod, chown, copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { escapeLiteral } from "pg";
import { migrate } from "../../db/migrate.ts";
import { createSupervisor } from "../../embedded/supervisor.ts";
import { findServerUser } from "../../embedded/findPostgresBinaries.ts";
import { startPostgres } from "../../embedded/startPostgres.ts";
import { createTestCa } from "./createTestCa.ts";
import type { CertificateFiles } from "./createTestCa.ts";
import { queryRows } from "./database.ts";
import { eventually } from "./programs.ts";

/** Lines of pg_hba.conf. */
const ACCESS = {
  any: "host all all all scram-sha-256",
  tls: "hostssl all all all scram-sha-256",
  clientCertificate: "hostssl all all all scram-sha-256 clientcert=verify-ca",
};

/**
 * Starts a PostgreSQL server whose encryption tests can change, with a migrated database. The caller stops it.
 * `appUrl` is the URL for the programs, without parameters.
 */
export const startTlsPostgres = async () => {
  const folder = await mkdtemp(join(tmpdir(), "tls-"));
  const { context, stopAll } = createSupervisor(folder, () => undefined);
  await chmod(folder, 0o755);
  const { url, appUrl } = await startPostgres({
    folder: join(folder, "postgres"),
    port: 0,
    disposable: true,
    context,
  });
  await migrate(url, { appUrl });
  const ca = createTestCa(folder);
  const user = findServerUser();
  const inData = (name: string): string => join(folder, "postgres/data", name);

  /** Runs a query as the owner, who may always connect in plain text. */
  const query = (text: string) => queryRows(`${url}?sslmode=disable`, text);

  const readLoadTime = async (): Promise<unknown> =>
    (await query("SELECT pg_conf_load_time()::text AS time"))[0]?.["time"];

  return {
    folder,
    ca,
    appUrl,
    /** @param certificate null turns TLS off */
    configure: async (
      certificate: CertificateFiles | null,
      access: keyof typeof ACCESS = "any",
    ): Promise<void> => {
      const settings: Record<string, string> = { ssl: certificate === null ? "off" : "on" };
      if (certificate !== null) {
        for (const [name, from] of [
          ["cert", certificate.certificate],
          ["key", certificate.key],
          ["ca", ca.certificate],
        ] as const) {
          const file = inData(`tls-${name}.pem`);
          await copyFile(from, file);
          await chmod(file, 0o600);
          if (user !== null) {
            await chown(file, user.uid, user.gid);
          }
          settings[`ssl_${name}_file`] = `tls-${name}.pem`;
        }
      }
      const owner = new URL(url).username;
      const rules = `host all ${owner} all scram-sha-256\n${ACCESS[access]}\n`;
      await writeFile(inData("pg_hba.conf"), rules);
      for (const [name, value] of Object.entries(settings)) {
        await query(`ALTER SYSTEM SET ${name} = ${escapeLiteral(value)}`);
      }
      const before = await readLoadTime();
      await query("SELECT pg_reload_conf()");
      await eventually(async () => (await readLoadTime()) !== before);
    },
    stop: async (): Promise<void> => {
      await stopAll();
      await rm(folder, { recursive: true, force: true });
    },
  };
};
