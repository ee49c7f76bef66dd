import type { DatabasePool } from "slonik";
import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { sql } from "../../db/sql.ts";
import { listBalanceEntries } from "../../modules/stores/balances.sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

const test = testWithDatabase();

const TABLES = ["balance_entry", "audit_entry", "planting_order"];
const MAXIMUM_PAGES = 60;

/** Inserts rows of accounts in turn into each of the tables. */
const insertRows = async (
  filler: DatabasePool,
  accountIds: readonly string[],
  rows: number,
): Promise<void> => {
  const values = sql.fragment`
    (${sql.array([...accountIds], "uuid")})[1 + number % ${accountIds.length}::integer] AS account_id
    FROM generate_series(1, ${rows}::integer) AS number
  `;
  await filler.query(sql.typeAlias("void")`
    INSERT INTO balance_entry (kind, amount_cents, balance_cents, created_at, account_id)
    SELECT 'topup', 1, 1, now(), ${values}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO audit_entry (action, actor, details, created_at, account_id)
    SELECT 'key.issue', 'service', '{}', now(), ${values}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO planting_order
      (public_id, mode, partner, partner_name, buyer_name, timeline, tree_count, created_at, account_id)
    SELECT gen_random_uuid(), 'live', 'simulated', 'Partner', 'Buyer', 'allocations', 1, now(), ${values}
  `);
};

test("the newest rows of an account are found beside any number of newer ones of other accounts", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const [quiet, ...others] = [
    await createTestOrganization(db),
    await createTestOrganization(db),
    await createTestOrganization(db),
  ];
  const quietId = quiet.id;
  const otherIds = others.map(({ id }) => id);
  await stopAutovacuum(filler, TABLES);
  await insertRows(filler, [quietId, ...otherIds, ...otherIds, ...otherIds], 20_000);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
  await insertRows(filler, otherIds, 20_000);

  const everything = { action: null, operator: null, since: null, until: null, before: null };
  const lists: Readonly<Record<string, (db: DatabasePool) => Promise<number>>> = {
    "the newest balance entries": async (single) =>
      (await listBalanceEntries(single, quietId, { before: null, limit: 20 })).length,
    "balance entries before one": async (single) =>
      (await listBalanceEntries(single, quietId, { before: "15000", limit: 20 })).length,
    "the newest audit entries": async (single) =>
      (await listAuditEntries(single, { ...everything, accountId: quietId }, 20)).length,
    "the newest planting orders": async (single) =>
      (await listPlantingOrders(single, { accountId: quietId, limit: 20 })).length,
  };
  const countPages = await createPageCounter(filler, db, TABLES);
  for (const [name, list] of Object.entries(lists)) {
    let listed = 0;
    const pages = await countPages(async (single) => {
      listed = await list(single);
    });
    t.is(listed, 20, name);
    t.true(pages <= MAXIMUM_PAGES, `${name}: ${pages} pages`);
  }
});
