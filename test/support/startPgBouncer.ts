import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { ExecutionContext } from "ava";
import { Client } from "pg";
import { findServerUser } from "../../embedded/findPostgresBinaries.ts";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { eventually } from "./programs.ts";

const PGBOUNCER = process.env["TEST_PGBOUNCER"] ?? "/usr/sbin/pgbouncer";

/** The settings of PgBouncer that matter to the service; docs/operations.md explains them. */
export type PgBouncerSettings = {
  readonly pool_mode?: "session" | "transaction" | "statement";
  readonly default_pool_size?: number;
  readonly ignore_startup_parameters?: string;
};

const canConnect = async (connectionString: string): Promise<boolean> => {
  const client = new Client({ connectionString, connectionTimeoutMillis: 1000 });
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
};

/**
 * Runs PgBouncer in front of a server until the end of the test. The defaults are those of the tested configuration.
 * @returns the URL of the database through it
 */
export const startPgBouncer = async (
  t: ExecutionContext,
  databaseUrl: string,
  settings: PgBouncerSettings = {},
): Promise<{ readonly url: string }> => {
  const { hostname, port, pathname, username, password } = new URL(databaseUrl);
  const folder = await mkdtemp(join(tmpdir(), "impact-pgbouncer-"));
  // Run by root, PgBouncer becomes another user.
  await chmod(folder, 0o755);
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
  const child = spawn(PGBOUNCER, [file], {
    ...findServerUser(),
    stdio: ["ignore", "ignore", "pipe"],
  });
  const errors = text(child.stderr);
  const exited = once(child, "close");
  const kill = (): boolean => child.kill("SIGKILL");
  process.once("exit", kill);
  t.teardown(async () => {
    process.off("exit", kill);
    kill();
    await exited;
    await rm(folder, { recursive: true, force: true });
  });
  const url = new URL(databaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String(listenPort);
  url.pathname = pathname;
  await eventually(async () => {
    if (child.exitCode !== null) {
      throw new Error(`PgBouncer has ended: ${await errors}`);
    }
    return canConnect(url.href);
  });
  return { url: url.href };
};
