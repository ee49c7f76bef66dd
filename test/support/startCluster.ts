import { execFile } from "node:child_process";
import { appendFile, chown, cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import type { ExecutionContext } from "ava";
import { createSupervisor } from "../../embedded/supervisor.ts";
import { findServerUser } from "../../embedded/findPostgresBinaries.ts";
import { startPostgres } from "../../embedded/startPostgres.ts";
import { queryRows, withClient } from "./database.ts";
import { makeTestFolder } from "./makeTestFolder.ts";
import { eventually } from "./programs.ts";

const run = promisify(execFile);

const queryOnce = async (url: string, text: string): Promise<unknown> =>
  (await queryRows(url, text))[0]?.["value"];

/** Files that belong to the running server, not to its data. */
const NOT_COPIED = new Set(["postmaster.pid", "postmaster.opts"]);

/** Copies a running server's data as a base backup does, for a server that follows it. */
const copyData = async (primaryUrl: string, from: string, to: string): Promise<void> => {
  await withClient(primaryUrl, async (client) => {
    await client.query("SELECT pg_backup_start('standby', fast => true)");
    await mkdir(to, { recursive: true });
    await cp(join(from, "data"), join(to, "data"), {
      recursive: true,
      // The standby streams the write-ahead log.
      filter: (path) =>
        !NOT_COPIED.has(basename(path)) && !path.startsWith(join(from, "data", "pg_wal", "0")),
    });
    const { rows } = await client.query<{ labelfile: string }>(
      "SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)",
    );
    await writeFile(join(to, "data", "backup_label"), rows[0]?.labelfile ?? "");
  });
  const { hostname, port, username, password } = new URL(primaryUrl);
  await writeFile(join(to, "data", "standby.signal"), "");
  await appendFile(
    join(to, "data", "postgresql.auto.conf"),
    `primary_conninfo = 'host=${hostname} port=${port} user=${username} password=${password}'\n`,
  );
  await writeFile(join(to, "password"), await readFile(join(from, "password"), "utf8"), {
    mode: 0o600,
  });
  const user = findServerUser();
  if (user !== null) {
    await run("chown", ["-R", `${user.uid}:${user.gid}`, to]);
    await chown(to, user.uid, user.gid);
  }
  await run("chmod", ["-R", "go-rwx", join(to, "data")]);
};

/** Starts a PostgreSQL server and an asynchronous standby of it. Both are stopped after the test. */
export const startCluster = async (t: ExecutionContext) => {
  const folder = await makeTestFolder(t);
  const { context, stopAll } = createSupervisor(folder, () => undefined);
  t.teardown(stopAll);
  const start = (name: string) =>
    startPostgres({ folder: join(folder, name), port: 0, disposable: true, context });
  const primary = await start("primary");
  await copyData(primary.url, join(folder, "primary"), join(folder, "standby"));
  const standby = await start("standby");
  return {
    primaryUrl: primary.url,
    standbyUrl: standby.url,
    /** Waits until the standby has replayed everything, and ends the replication: it loses what follows. */
    disconnectStandby: async (): Promise<void> => {
      // Commits of a disposable server are not flushed at once, and the standby gets what is flushed.
      const end = await queryOnce(primary.url, "SELECT pg_current_wal_insert_lsn()::text AS value");
      const replayed = `SELECT pg_last_wal_replay_lsn() >= '${String(end)}'::pg_lsn AS value`;
      await eventually(async () => (await queryOnce(standby.url, replayed)) === true);
      await queryOnce(standby.url, "ALTER SYSTEM SET primary_conninfo = ''");
      await queryOnce(standby.url, "SELECT pg_reload_conf() AS value");
      const replications = "SELECT count(*)::int AS value FROM pg_stat_replication";
      await eventually(async () => (await queryOnce(primary.url, replications)) === 0);
    },
    failOver: async (): Promise<void> => {
      await primary.process.stop();
      await queryOnce(standby.url, "SELECT pg_promote(true, 60) AS value");
    },
  };
};
