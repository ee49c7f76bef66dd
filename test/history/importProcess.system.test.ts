import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { readAccountSums } from "../support/accountSums.ts";
import type { DatabaseTest } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { lineOf } from "./importLine.ts";
import { linesOf, writeTestFile } from "./importScene.ts";
import { impactOf, readJson } from "../cli/runImpact.ts";

const test = testWithDatabase();

const MAIN = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** Writes a file in which every second line has a key, and the others have an id. */
const writeHistory = (t: ExecutionContext, count: number): Promise<string> => {
  const lines = Array.from({ length: count }, (_, index) =>
    lineOf({
      created_at: new Date(Date.UTC(2023, 0, 1) + index * 60_000).toISOString(),
      metadata: { note: "x".repeat(100) },
      ...(index % 2 === 0 ? { idempotency_key: `history-${index}` } : {}),
    }),
  );
  return writeTestFile(t, "history.ndjson", linesOf(...lines));
};

const CHILD = "killed-import";

const countConnections = (db: DatabasePool): Promise<number> =>
  db.oneFirst(sql.type(z.strictObject({ connections: z.bigint().transform(Number) }))`
    SELECT count(*) AS connections FROM pg_stat_activity WHERE application_name = ${CHILD}
  `);

/** Starts an import whose input ends in the middle and stays open, so it cannot finish, and waits until it has written. */
const startImport = async (
  t: DatabaseTest,
  { id, path }: { readonly id: string; readonly path: string },
) => {
  const { db, databaseUrl } = t.context;
  const child = spawn(process.execPath, [MAIN, "import", "history", "-", "--org", id], {
    env: { ...process.env, DATABASE_URL: `${databaseUrl}?application_name=${CHILD}` },
    stdio: ["pipe", "ignore", "pipe"],
  });
  t.teardown(() => child.kill("SIGKILL"));
  const exited = once(child, "exit");
  child.stdin.on("error", () => undefined);
  const end = Math.floor((await stat(path)).size / 2);
  createReadStream(path, { end }).pipe(child.stdin, { end: false });
  await eventually(async () => (await readAccountSums(db, id)).registrations > 0);
  return { child, exited };
};

test.serial("an import that is killed while writing is completed by another run", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const count = 30_000;
  const path = await writeHistory(t, count);
  const { child, exited } = await startImport(t, { id, path });
  t.true((await countConnections(db)) > 0);
  child.kill("SIGKILL");
  t.deepEqual(await exited, [null, "SIGKILL"]);
  // The server still completes the statement that the process has sent.
  await eventually(async () => (await countConnections(db)) === 0);
  const killed = await readAccountSums(db, id);
  t.true(killed.registrations < count);
  t.is(killed.total, killed.registered);

  const run = await impactOf(t)("import", "history", path, "--org", id, "--json");
  t.is(run.exitCode, 0, run.stderr);
  const after = await readAccountSums(db, id);
  t.is(after.registrations, count);
  t.is(after.total, BigInt(count));
  t.like(readJson(run), {
    lines: count,
    bad: 0,
    kinds: {
      tree: { new: count - killed.registrations, already_there: killed.registrations, conflict: 0 },
    },
  });
});

test.serial("a big file is imported in a small heap", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id } = await createTestOrganization(db);
  const count = 70_000;
  const path = await writeHistory(t, count);
  // The program itself needs about 35 MB; with all lines in memory, 60,000 of them did not fit.
  const child = spawn(
    process.execPath,
    ["--max-old-space-size=56", MAIN, "import", "history", path, "--org", id],
    { env: { ...process.env, DATABASE_URL: databaseUrl }, stdio: "ignore" },
  );
  t.teardown(() => child.kill("SIGKILL"));
  t.deepEqual(await once(child, "exit"), [0, null]);
  t.is((await readAccountSums(db, id)).registrations, count);
});
