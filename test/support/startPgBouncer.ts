import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { findServerUser } from "../../embedded/findPostgresBinaries.ts";
import { withClient } from "./database.ts";
import { findFreePort } from "../../runtime/server/ports.ts";
import { makeTestFolder } from "./makeTestFolder.ts";
import { spawnUntilEnd } from "./programs.ts";

const PGBOUNCER = process.env["TEST_PGBOUNCER"] ?? "/usr/sbin/pgbouncer";

/** The settings of PgBouncer that matter to the service; docs/operations.md explains them. */
export type PgBouncerSettings = {
  readonly pool_mode?: "session" | "transaction" | "statement";
  readonly default_pool_size?: number;
  readonly ignore_startup_parameters?: string;
};

const canConnect = (url: string): Promise<boolean> =>
  withClient(url, () => Promise.resolve(true)).catch(() => false);

/**
 * Runs PgBouncer in front of a server until the end of the test. The defaults are those of the tested configuration.
 * @returns the URL of the database through it
 */
export const startPgBouncer = async (
  t: ExecutionContext,
  databaseUrl: string,
  settings: PgBouncerSettings = {},
): Promise<{ readonly url: string }> => {
  const { hostname, port, username, password } = new URL(databaseUrl);
  const folder = await makeTestFolder(t);
  const listenPort = await findFreePort();
  const file = join(folder, "pgbouncer.ini");
  const options = {
    pool_mode: "transaction",
    ignore_startup_parameters: "statement_timeout,idle_in_transaction_session_timeout",
    ...settings,
  };
  await writeFile(join(folder, "users.txt"), `"${username}" "${decodeURIComponent(password)}"\n`);
  await writeFile(
    file,
    [
      "[databases]",
      `* = host=${hostname} port=${port}`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${listenPort}`,
      "unix_socket_dir =",
      "auth_type = plain",
      `auth_file = ${join(folder, "users.txt")}`,
      ...Object.entries(options).map(([name, value]) => `${name} = ${value}`),
    ].join("\n"),
  );
  const { untilReady } = spawnUntilEnd(t, [PGBOUNCER, file], { ...findServerUser() });
  const url = new URL(databaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String(listenPort);
  await untilReady(() => canConnect(url.href));
  return { url: url.href };
};
