import { findLatestCustomer } from "../../../modules/billing/reconciliation/eventsInDoubt.sql.ts";
import { sql } from "../../../db/sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../../support/countPages.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";

const test = testWithDatabase();

test("the latest customer of an account whose usage the ledger has is looked up in few pages", async (t) => {
  const { filler, db } = await openSinglePools(t);
  await stopAutovacuum(filler, ["meter_event"]);
  const { id: accountId } = await createTestOrganization(filler);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at)
    SELECT ${accountId}, 'live', 'tree', second, 1, 1, 'event-' || second, 'ledger', 'delivered', now()
    FROM generate_series(1, 10000) AS second
  `);
  await filler.query(sql.typeAlias("void")`VACUUM ANALYZE meter_event`);
  const countPages = await createPageCounter(filler, db, ["meter_event"]);

  const pages = await countPages(async () => {
    t.is(await findLatestCustomer(db, accountId), null);
  });

  t.true(pages < 40, `${pages} pages`);
});
