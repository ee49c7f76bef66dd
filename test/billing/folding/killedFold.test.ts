import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { lockStream } from "../../../db/billing/streams.ts";
import { sql } from "../../../db/sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { setUpFolding, START } from "./foldSetup.ts";

const test = testWithDatabase();

const PROGRAM = fileURLToPath(new URL("../../../cli/main.ts", import.meta.url));

/** Returns the process of the database that waits for a lock of this transaction; null if there is none. */
const findWaiting = (transaction: CommonQueryMethods): Promise<number | null> =>
  transaction.maybeOneFirst(sql.type(z.strictObject({ pid: z.int() }))`
    SELECT pid
    FROM pg_locks
    WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))
    LIMIT 1
  `);

const isRunning = (db: CommonQueryMethods, pid: number): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM pg_stat_activity WHERE pid = ${pid}
  `);

test("a fold that is killed between transactions or inside of one goes on with what is left", async (t) => {
  const scene = await setUpFolding(t);
  const { db, accountId } = scene;
  for (let count = 1; count <= 45; count += 1) {
    await scene.register(count);
    scene.pass(1);
  }
  await scene.register(1000, { kind: "bottle" });
  await scene.drain();
  await scene.drain({ meter: "bottle" });
  const before = await scene.read();

  const start = () =>
    spawn(
      process.execPath,
      [PROGRAM, "usage", "fold", "--before", "2026-03-01", "--org", accountId],
      { env: { ...process.env, DATABASE_URL: t.context.databaseUrl }, stdio: "ignore" },
    );
  /** Kills the command while it waits for a lock, and returns the database's process that waited for it. */
  const killWhileWaiting = async (transaction: CommonQueryMethods): Promise<number> => {
    const command = start();
    const exited = once(command, "exit");
    let pid: number | null = null;
    await eventually(async () => {
      pid = await findWaiting(transaction);
      return pid !== null;
    });
    command.kill("SIGKILL");
    t.deepEqual(await exited, [null, "SIGKILL"]);
    return pid ?? 0;
  };
  const untilGone = (pid: number): Promise<void> =>
    eventually(async () => !(await isRunning(db, pid)));

  // Inside the transaction of the second part: its deletion waits for this row.
  const first = await db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`
      SELECT FROM meter_event WHERE account_id = ${accountId} AND second = ${START + 30} FOR UPDATE
    `);
    return killWhileWaiting(transaction);
  });
  await untilGone(first);
  t.deepEqual(await scene.counts(), { facts: 26, events: 26 });
  t.deepEqual(await scene.read(), before);

  // Between the transactions of two streams.
  const second = await db.transaction(async (transaction) => {
    await lockStream(transaction, { accountId, mode: "live", meter: "bottle" });
    return killWhileWaiting(transaction);
  });
  await untilGone(second);
  t.deepEqual(await scene.counts(), { facts: 1, events: 1 });
  t.deepEqual(await scene.read(), before);

  t.deepEqual(await once(start(), "exit"), [0, null]);
  t.deepEqual(await scene.counts(), { facts: 0, events: 0 });
  t.deepEqual(await scene.read(), before);
});
