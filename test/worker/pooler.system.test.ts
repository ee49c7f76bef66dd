import { sumLedgerUnits } from "../support/sumLedgerUnits.ts";
import { sql } from "../../db/sql.ts";
import { runImpact } from "../cli/runImpact.ts";
import { lineOf } from "../history/importLine.ts";
import { linesOf } from "../history/importScene.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { startPgBouncer } from "../support/startPgBouncer.ts";

const test = testWithDatabase();

const newTrees = (output: { readonly stdout: string }): unknown =>
  JSON.parse(output.stdout).kinds.tree.new;

test("the programs work behind a pooler that shares few connections", async (t) => {
  const { db, databaseUrl, owner } = t.context;
  const database = sql.identifier([new URL(databaseUrl).pathname.slice(1)]);
  // Longer than the programs' own.
  await owner.query(sql.typeAlias("void")`
    ALTER DATABASE ${database} SET statement_timeout = '2min'
  `);
  await owner.query(sql.typeAlias("void")`
    ALTER DATABASE ${database} SET idle_in_transaction_session_timeout = '2min'
  `);
  const { namespace } = await openNamespace(t);
  const { url } = await startPgBouncer(t, databaseUrl, { default_pool_size: 5 });
  const { id, apiKeyTest } = await createTestOrganization(db);
  const settings = { DATABASE_URL: url, TEMPORAL_NAMESPACE: namespace, LOG_LEVEL: "fatal" };
  const [{ urls }] = await Promise.all([
    startProgram(t, "api/main.ts", settings),
    startProgram(t, "worker/main.ts", settings),
  ]);
  const call = (path: string, body?: object) =>
    fetch(`${urls["standalone"]}${path}`, {
      method: body ? "POST" : "GET",
      headers: { authorization: apiKeyTest, "content-type": "application/json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });

  const responses = await Promise.all(
    Array.from({ length: 50 }, () => call("/plant/trees", { count: 2 })),
  );
  t.deepEqual([...new Set(responses.map(({ status }) => status))], [200]);
  const list = await call("/plant/trees");
  t.is(list.status, 200);
  await list.text();

  await eventually(
    async () => (await sumLedgerUnits(db, { accountId: id, mode: "test", kind: "tree" })) === 100,
  );

  const history = linesOf(
    ...Array.from({ length: 2500 }, (_, index) => lineOf({ id: `t${index}` })),
  );
  const run = (...options: readonly string[]) =>
    runImpact(["import", "history", "-", "--org", id, "--json", ...options], {
      env: { DATABASE_URL: url },
      stdin: history,
    });
  const dryRun = await run("--dry-run");
  t.is(dryRun.exitCode, 0, dryRun.stderr);
  const first = await run();
  t.is(first.exitCode, 0, first.stderr);
  const second = await run();
  t.is(second.exitCode, 0, second.stderr);
  t.deepEqual([dryRun, first, second].map(newTrees), [2500, 2500, 0]);
});
