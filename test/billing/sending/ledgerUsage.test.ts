import {
  recordLedgerUsage,
  sumFirstLedgerUsage,
  sumLedgerUsage,
} from "../../../modules/billing/ledgerUsage.sql.ts";
import { sql } from "../../../db/sql.ts";
import { createLedgerProcessor } from "../../../modules/billing/createLedgerProcessor.ts";
import { createYieldingPace } from "../../support/bulkPaces.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";

const test = testWithDatabase();

test("a sum of the first entries has whole seconds, and the next one continues after it", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const stream = { accountId, mode: "live", kind: "tree" } as const;
  const seconds = [100, 205, 205, 205, 206, 300];
  await recordLedgerUsage(
    db,
    seconds.map((second, index) => ({
      accountId,
      mode: "live",
      kind: "tree",
      identifier: `${accountId} ${index}`,
      second,
      quantity: 10 ** index,
    })),
  );
  const sumFrom = (start: number, limit: number) =>
    sumFirstLedgerUsage(db, stream, { start, end: 300 }, limit);

  t.deepEqual(await sumFrom(0, 1), { quantity: 1, end: 101 });
  t.deepEqual(await sumFrom(101, 1), { quantity: 1110, end: 206 });
  t.deepEqual(await sumFrom(0, 3), { quantity: 1111, end: 206 });
  t.deepEqual(await sumFrom(206, 1), { quantity: 10_000, end: 207 });
  t.deepEqual(await sumFrom(206, 2), { quantity: 10_000, end: 300 });
  t.deepEqual(await sumFrom(207, 1), { quantity: 0, end: 300 });
  t.is(await sumLedgerUsage(db, stream, { start: 0, end: 300 }), 11_111);
});

test("while clients record, the ledger adds many entries up in several steps", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    INSERT INTO ledger_usage (identifier, account_id, mode, kind, second, quantity, recorded_at)
    SELECT ${accountId} || number, ${accountId}::uuid, 'live', 'tree', number, 3, now()
    FROM generate_series(1, 20000) AS number
  `);
  const pace = createYieldingPace();
  const ledger = createLedgerProcessor({ db, mode: "live", pace });

  const units = await ledger.sumUsage(
    { accountId, customerId: null },
    "tree",
    { start: 0, end: 1_000_000 },
    new AbortController().signal,
  );

  t.is(units, 60_000);
  t.is(pace.stepCount(), 3);
});
