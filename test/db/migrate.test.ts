import test from "ava";
import { Client } from "pg";
import { migrate, requireCurrentSchema, SchemaMismatchError } from "../../db/migrate.ts";
import { createEmptyDatabase } from "../support/database.ts";

test("concurrent migrators apply each migration once, and a later one applies none", async (t) => {
  const url = await createEmptyDatabase(t);

  const results = await Promise.all([migrate(url), migrate(url), migrate(url)]);

  const applied = results.flatMap((result) => result.applied);
  t.is(new Set(applied).size, applied.length);
  t.true(applied.length > 0);
  t.deepEqual(await migrate(url), { applied: [] });
  await t.notThrowsAsync(requireCurrentSchema(url));
});

test("a program rejects an empty database and says what to run", async (t) => {
  const url = await createEmptyDatabase(t);

  await t.throwsAsync(requireCurrentSchema(url), {
    instanceOf: SchemaMismatchError,
    message: /impact -- migrate/u,
  });
});

test("the database of a newer release is neither migrated nor used", async (t) => {
  const url = await createEmptyDatabase(t);
  await migrate(url);
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(
    "INSERT INTO schema_migration (number, name, runs_with) VALUES (9999, '9999_later', 9999)",
  );
  await client.end();

  await t.throwsAsync(migrate(url), { instanceOf: SchemaMismatchError, message: /9999/u });
  await t.throwsAsync(requireCurrentSchema(url), { instanceOf: SchemaMismatchError });
});
