import { readFile, writeFile } from "node:fs/promises";
import test from "ava";
import { Client } from "pg";
import { migrate } from "../../db/migrate.ts";
import { createEmptyDatabase } from "../support/database.ts";
import { dumpSchema } from "./dumpSchema.ts";

const SCHEMA = new URL("../../db/schema.sql", import.meta.url);

test("db/schema.sql is the schema that the migrations make", async (t) => {
  const url = await createEmptyDatabase(t);
  await migrate(url);
  const client = new Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());

  const schema = await dumpSchema(client);

  if (process.env["WRITE_SCHEMA"] !== undefined) {
    await writeFile(SCHEMA, schema);
  }
  t.is(await readFile(SCHEMA, "utf8"), schema, "Run: npm run schema");
});
