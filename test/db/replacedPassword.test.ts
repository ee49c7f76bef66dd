import { Client, escapeIdentifier } from "pg";
import { sql } from "slonik";
import { z } from "zod";
import { openPool } from "../../db/pools/pool.ts";
import { eventually } from "../support/programs.ts";
import { createEmptyDatabase, testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

const userRow = z.strictObject({ name: z.string() });

test("new connections have the user and the password that the URL has by then", async (t) => {
  const ownerUrl = await createEmptyDatabase(t);
  const admin = new Client({ connectionString: ownerUrl });
  await admin.connect();
  const names = ["first", "second"].map((kind) => `test_${kind}_${crypto.randomUUID()}`);
  const [first = "", second = ""] = names.map((name) => {
    const url = new URL(ownerUrl);
    url.username = name;
    url.password = name;
    return url.href;
  });
  for (const name of names) {
    await admin.query(`CREATE ROLE ${escapeIdentifier(name)} LOGIN PASSWORD '${name}'`);
  }
  let url = first;
  const pool = await openPool(() => url, 2);
  t.teardown(async () => {
    await pool.end();
    for (const name of names) {
      await admin.query(`DROP ROLE ${escapeIdentifier(name)}`);
    }
    await admin.end();
  });
  const readUser = (): Promise<string> =>
    pool.oneFirst(sql.type(userRow)`SELECT current_user::text AS name`);
  t.is(await readUser(), String(names[0]));

  url = second;
  await admin.query(`ALTER ROLE ${escapeIdentifier(names[0] ?? "")} PASSWORD 'another'`);
  // As a failover, or a restart of a pooler.
  await admin.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", [
    names[0],
  ]);

  // The first statement on each connection that was ended fails.
  await eventually(async () => {
    const user = await readUser().catch(() => null);
    return user === names[1];
  });
  t.is(await readUser(), String(names[1]));
});
