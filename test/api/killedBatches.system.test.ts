import type { ExecutionContext } from "ava";
import { sql } from "../../db/sql.ts";
import { EIN, NOTHING_RECORDED, readDonationLedger } from "../charities/donations/donationSetup.ts";
import { readAccountSums } from "../support/accountSums.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { awaitBlocked } from "../support/lockWaits.ts";
import { startProgram } from "../support/programs.ts";

const test = testWithDatabase();

/**
 * Sends a batch to an API that is killed before it can commit.
 * @param total locks the account's total; while it is locked, the batch's rows are inserted and cannot be committed
 * @returns sends the batch to an API that was started afterwards, and returns the status
 */
const killDuringBatch = async (
  t: ExecutionContext<DatabaseContext>,
  { path, key, items }: { readonly path: string; readonly key: string; readonly items: unknown },
  total: ReturnType<typeof sql.fragment>,
): Promise<() => Promise<number>> => {
  const { db, databaseUrl } = t.context;
  const startApi = () => startProgram(t, "api/main.ts", { DATABASE_URL: databaseUrl });
  const send = async ({ urls }: { readonly urls: Readonly<Record<string, string>> }) => {
    const response = await fetch(`${urls["standalone"]}${path}`, {
      method: "POST",
      headers: { authorization: key, "content-type": "application/json" },
      body: JSON.stringify({ items }),
    });
    await response.json();
    return response.status;
  };
  const first = await startApi();
  await db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`SELECT FROM ${total} FOR UPDATE`);
    const sending = Promise.allSettled([send(first)]);
    await awaitBlocked(transaction);
    await first.kill();
    t.is((await sending)[0]?.status, "rejected");
  });
  const second = await startApi();
  return () => send(second);
};

test("a batch of registrations whose API is killed during its transaction is recorded once by its retry", async (t) => {
  const { db } = t.context;
  const { id: accountId, apiKeyProd: key } = await createTestOrganization(db);
  const items = Array.from({ length: 1000 }, (_, index) => ({
    count: 1 + (index % 3),
    idempotency_key: `order-${index}`,
  }));
  const units = items.reduce((sum, { count }) => sum + count, 0);
  await db.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total) VALUES (${accountId}, 'live', 'tree', 'all', 0)
  `);

  const retry = await killDuringBatch(
    t,
    { path: "/plant/trees/batch", key, items },
    sql.fragment`impact_total WHERE account_id = ${accountId}`,
  );
  // The server may still commit the killed process's statement, or not: the retry decides.
  t.is(await retry(), 200);
  t.is(await retry(), 200);

  t.like(await readAccountSums(db, accountId), {
    registrations: 1000,
    registered: BigInt(units),
    total: BigInt(units),
    usage: BigInt(units),
    facts: 1,
  });
});

test("a batch of donations whose API is killed during its transaction is not recorded, and its retry records each donation once", async (t) => {
  const { db } = t.context;
  const { id: accountId, apiKeyTest: key } = await createTestOrganization(db);
  const items = Array.from({ length: 500 }, (_, index) => ({
    amount_cents: 2,
    ein: EIN,
    idempotency_key: `gift-${index}`,
  }));
  await db.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode) VALUES (${accountId}, 'test')
  `);

  const retry = await killDuringBatch(
    t,
    { path: "/charities/donate/batch", key, items },
    sql.fragment`donor WHERE account_id = ${accountId}`,
  );
  t.deepEqual(await readDonationLedger(db, accountId), NOTHING_RECORDED);
  t.is(await retry(), 200);

  t.deepEqual(await readDonationLedger(db, accountId), { donations: 500, count: 500, cents: 1000 });
});
