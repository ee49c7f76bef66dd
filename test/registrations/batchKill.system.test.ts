import { sql } from "../../db/sql.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { awaitBlocked } from "../support/lockWaits.ts";
import { startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test("a batch whose API is killed during its transaction is not recorded, and its retry records each item once", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id: accountId, apiKeyProd: key } = await createTestOrganization(db);
  const items = Array.from({ length: 1000 }, (_, index) => ({
    count: 1 + (index % 3),
    idempotency_key: `order-${index}`,
  }));
  const units = items.reduce((sum, { count }) => sum + count, 0);
  const startApi = () => startProgram(t, "api/main.ts", { DATABASE_URL: databaseUrl });
  const send = async ({ urls }: { readonly urls: Readonly<Record<string, string>> }) => {
    const response = await fetch(`${urls["standalone"]}/plant/trees/batch`, {
      method: "POST",
      headers: { authorization: key, "content-type": "application/json" },
      body: JSON.stringify({ items }),
    });
    await response.json();
    return response.status;
  };
  const first = await startApi();
  await db.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total) VALUES (${accountId}, 'live', 'tree', 'all', 0)
  `);

  // While the account's total is locked, the batch's rows are inserted and cannot be committed.
  await db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`
      SELECT FROM impact_total WHERE account_id = ${accountId} FOR UPDATE
    `);
    const sending = Promise.allSettled([send(first)]);
    await awaitBlocked(transaction);
    await first.kill();
    t.is((await sending)[0]?.status, "rejected");
  });
  // The server may still commit the killed process's statement, or not: the retry decides.
  const second = await startApi();
  t.is(await send(second), 200);
  t.is(await send(second), 200);

  t.like(await readAccountSums(db, accountId), {
    registrations: 1000,
    registered: BigInt(units),
    total: BigInt(units),
    usage: BigInt(units),
    facts: 1000,
  });
});
