import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { copyDatabase, asOwner, openTestPool, testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { sumLedgerUnits } from "../support/accountSums.ts";

const test = testWithDatabase();

const planted = z.object({ tree_details: z.array(z.object({ id: z.uuid() })).min(1) });

test("this release's programs run on the schema of a later one that says so, and refuse another", async (t) => {
  const databaseUrl = await copyDatabase(t);
  const db = await openTestPool(t, databaseUrl, 2);
  const owner = await openTestPool(t, asOwner(databaseUrl), 1);
  const { id: accountId, apiKeyProd } = await createTestOrganization(db);
  await owner.query(sql.typeAlias("void")`ALTER TABLE registration ADD COLUMN later text`);
  for (const table of ["usage_fact", "webhook_endpoint"]) {
    await owner.query(sql.typeAlias("void")`
      ALTER TABLE ${sql.identifier([table])} ADD COLUMN later integer NOT NULL DEFAULT 1
    `);
  }
  await owner.query(sql.typeAlias("void")`
    INSERT INTO schema_migration (number, name, runs_with, checksum)
    SELECT 9998, '9998_later', max(number), '' FROM schema_migration
  `);

  const { namespace } = await openNamespace(t);
  const settings = { DATABASE_URL: databaseUrl, TEMPORAL_NAMESPACE: namespace };
  const [api, worker] = await Promise.all([
    startProgram(t, "api/main.ts", settings),
    startProgram(t, "worker/main.ts", settings),
  ]);
  const post = async (path: string, body: object): Promise<unknown> => {
    const response = await api.post(path, body, { Authorization: apiKeyProd });
    t.is(response.status, 200);
    return response.json();
  };
  const [tree] = planted.parse(await post("/plant/trees", { count: 30 })).tree_details;
  await post("/refund/trees", { id: tree?.id, count: 1 });
  await post("/webhook_endpoints", { url: "https://shop.example/hook" });
  await eventually(
    async () => (await sumLedgerUnits(db, { accountId, mode: "live", kind: "tree" })) === 29,
  );
  await Promise.all([api.kill(), worker.kill()]);

  await owner.query(sql.typeAlias("void")`
    INSERT INTO schema_migration (number, name, runs_with, checksum) VALUES (9999, '9999_contracted', 9999, '')
  `);
  for (const program of ["api/main.ts", "worker/main.ts"] as const) {
    await t.throwsAsync(startProgram(t, program, settings), { message: /ended with code 1/u });
  }
});
