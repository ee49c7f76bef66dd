import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { DatabaseTransactionConnection } from "slonik";
import { lockStream } from "../../../modules/billing/streams.sql.ts";
import { sql } from "../../../db/sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { awaitBlocked, awaitGone } from "../../support/lockWaits.ts";
import { setUpFolding, START } from "./foldSetup.ts";

const test = testWithDatabase();

const PROGRAM = fileURLToPath(new URL("../../../cli/main.ts", import.meta.url));

test("a fold that is killed between transactions or inside of one goes on with what is left", async (t) => {
  const scene = await setUpFolding(t);
  const { db, accountId } = scene;
  for (let count = 1; count <= 45; count += 1) {
    await scene.register(count);
    scene.pass(1);
  }
  await scene.register(1000, { kind: "bottle" });
  await scene.drain();
  await scene.drain({ kind: "bottle" });
  const before = await scene.read();

  const start = () =>
    spawn(
      process.execPath,
      [PROGRAM, "usage", "fold", "--before", "2026-03-01", "--org", accountId],
      { env: { ...process.env, DATABASE_URL: t.context.databaseUrl }, stdio: "ignore" },
    );
  /** Kills the command while it waits for a lock, and returns the database's processes that waited for it. */
  const killWhileWaiting = async (transaction: DatabaseTransactionConnection) => {
    const command = start();
    const exited = once(command, "exit");
    const pids = await awaitBlocked(transaction);
    command.kill("SIGKILL");
    t.deepEqual(await exited, [null, "SIGKILL"]);
    return pids;
  };

  // Inside the transaction of the second part: its deletion waits for this row.
  const first = await db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`
      SELECT FROM meter_event WHERE account_id = ${accountId} AND second = ${START + 30} FOR UPDATE
    `);
    return killWhileWaiting(transaction);
  });
  await awaitGone(db, first);
  t.deepEqual(await scene.counts(), { facts: 26, events: 26 });
  t.deepEqual(await scene.read(), before);

  // Between the transactions of two streams.
  const second = await db.transaction(async (transaction) => {
    await lockStream(transaction, { accountId, mode: "live", kind: "bottle" });
    return killWhileWaiting(transaction);
  });
  await awaitGone(db, second);
  t.deepEqual(await scene.counts(), { facts: 1, events: 1 });
  t.deepEqual(await scene.read(), before);

  t.deepEqual(await once(start(), "exit"), [0, null]);
  t.deepEqual(await scene.counts(), { facts: 0, events: 0 });
  t.deepEqual(await scene.read(), before);
});
