import {
  listMeterEvents,
  countUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import { sql } from "../../db/sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

const test = testWithDatabase();

const EVENTS = 4000;
/** Planning reads pages of each index. With an index of all events that have a note, it was 248 pages. */
const MAXIMUM_ATTENTION_PAGES = 60;

test("usage that has an operator's attention is counted without reading all that was delivered", async (t) => {
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
});
