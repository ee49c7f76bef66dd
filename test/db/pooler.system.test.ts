import type { ExecutionContext } from "ava";
import { migrate } from "../../db/migrate.ts";
import { openDatabase } from "../../db/openDatabase.ts";
import { sql } from "../../db/sql.ts";
import { testWithDatabase, copyDatabase, asOwner, openTestPool } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { startPgBouncer } from "../support/startPgBouncer.ts";
import type { PgBouncerSettings } from "../support/startPgBouncer.ts";
import { sumLedgerUnits } from "../support/accountSums.ts";

const test = testWithDatabase();

const USABLE: PgBouncerSettings = { default_pool_size: 5 };

/** Creates a database whose sessions have time limits, as docs/operations.md says, or none. */
const createDatabase = async (t: ExecutionContext, limits: readonly string[]): Promise<string> => {
  const url = await copyDatabase(t);
  const owner = await openTestPool(t, asOwner(url), 1);
  for (const limit of limits) {
    await owner.query(sql.typeAlias("void")`
      ALTER DATABASE ${sql.identifier([new URL(url).pathname.slice(1)])}
      SET ${sql.identifier([limit])} = '50s'
    `);
  }
  return url;
};

const LIMITS = ["statement_timeout", "idle_in_transaction_session_timeout"];

for (const [title, settings, message, limits] of [
  [
    "whose role has no time limits",
    USABLE,
    /the role needs time limits: ALTER ROLE/u,
    LIMITS.slice(1),
  ],
  [
    "without transactions",
    { pool_mode: "statement" },
    /transaction.* not allowed in statement pooling mode/iu,
    LIMITS,
  ],
  [
    "that rejects a start-up parameter",
    { ignore_startup_parameters: "statement_timeout" },
    /idle_in_transaction_session_timeout; .*ignore_startup_parameters/u,
    LIMITS,
  ],
] as const) {
  test(`a pooler ${title} is refused, with what to change`, async (t) => {
    const { url } = await startPgBouncer(t, await createDatabase(t, limits), settings);
    const opening = openDatabase({ DATABASE_URL: url, DATABASE_POOL_SIZE: 2, CELL: undefined });
    await t.throwsAsync(opening, { name: "StartupError", message });
  });
}

test("migrations are refused behind a pooler", async (t) => {
  const { url } = await startPgBouncer(t, t.context.ownerUrl);
  await t.throwsAsync(migrate(url), {
    message: /Set DATABASE_OWNER_URL to the server's own address\./u,
  });
});

test("the programs work behind a pooler", async (t) => {
  const databaseUrl = await createDatabase(t, LIMITS);
  const db = await openTestPool(t, databaseUrl, 2);
  const { namespace } = await openNamespace(t);
  const { url } = await startPgBouncer(t, databaseUrl, USABLE);
  const { id, apiKeyTest } = await createTestOrganization(db);
  const settings = { DATABASE_URL: url, TEMPORAL_NAMESPACE: namespace, LOG_LEVEL: "fatal" };
  const [{ urls }] = await Promise.all([
    startProgram(t, "api/main.ts", settings),
    startProgram(t, "worker/main.ts", settings),
  ]);
  const call = (body?: object) =>
    fetch(`${urls["standalone"]}/plant/trees`, {
      method: body ? "POST" : "GET",
      headers: { authorization: apiKeyTest, "content-type": "application/json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });

  const responses = await Promise.all(Array.from({ length: 50 }, () => call({ count: 2 })));
  t.deepEqual([...new Set(responses.map(({ status }) => status))], [200]);
  const list = await call();
  t.is(list.status, 200);
  await list.text();

  await eventually(
    async () => (await sumLedgerUnits(db, { accountId: id, mode: "test", kind: "tree" })) === 100,
  );
});
