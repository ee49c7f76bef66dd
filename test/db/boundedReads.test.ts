import type { DatabasePool } from "slonik";
import {
  listMeterEvents,
  countUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
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

test.serial(
  "the newest rows of an account are found beside any number of newer ones of other accounts",
  async (t) => {
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
  },
);

const EVENTS = 4000;
/** Planning reads pages of each index. With an index of all events that have a note, it was 248 pages. */
const MAXIMUM_ATTENTION_PAGES = 60;

test.serial(
  "usage that has an operator's attention is counted without reading all that was delivered",
  async (t) => {
    const { filler, db: single } = await openSinglePools(t);
    const tables = ["meter_event"];
    await stopAutovacuum(filler, tables);
    const { id: accountId } = await createTestOrganization(t.context.db);
    await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event (
      account_id, mode, kind, second, sequence, quantity, identifier, processor, state, attempts, is_late, last_error,
      sealed_at, settled_at
    )
    SELECT
      ${accountId}, 'live', 'tree', second, 1, 1, second::text, 'ledger', 'delivered', 2,
      second = 100, 'the connection was lost',
      now(), now()
    FROM generate_series(1, ${EVENTS}::integer) AS second
  `);
    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) meter_event`);
    const countPages = await createPageCounter(filler, single, tables);

    const pages = await countPages(async (db) => {
      t.deepEqual(await countUsageAttention(db), [{ cause: "late", items: 1, units: 1 }]);
      const listed = await listMeterEvents(db, { state: "late", accountId: null, limit: 10 });
      t.deepEqual(
        listed.map(({ second }) => second),
        [100],
      );
    });

    t.true(pages > 0 && pages <= MAXIMUM_ATTENTION_PAGES, `${pages} pages`);
  },
);
