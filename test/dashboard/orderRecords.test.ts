import { listOrderRecords } from "../../db/dashboard/certificates.ts";
import { sql } from "../../db/sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestStore } from "../stores/startStoreApi.ts";

const test = testWithDatabase();

const TABLES = ["registration", "donation"];
const MAXIMUM_PAGES = 100;

test("the first records of a huge order are read in a few pages, with and without statistics", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const { id: accountId } = await createTestStore(db);
  await stopAutovacuum(filler, TABLES);
  const columns = sql.fragment`id, account_id, mode, created_at, order_id`;
  const values = sql.fragment`
    gen_random_uuid(), ${accountId}, 'live', '2026-11-01'::timestamptz - number * interval '1 second', '#0'
  `;
  const numbers = sql.fragment`generate_series(1, 10000) AS number`;
  await filler.query(sql.typeAlias("void")`
    INSERT INTO registration (${columns}, kind, count)
    SELECT ${values}, kind, 1 FROM ${numbers}, unnest(ARRAY['tree', 'bottle']) AS kind
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donation (${columns}, amount_cents, nonprofit_id, charity_provider, charity_name)
    SELECT ${values}, 100, 'charity', 'catalogue', 'Charity' FROM ${numbers}
  `);
  const countPages = await createPageCounter(filler, db, TABLES);
  const read = async (statistics: string): Promise<void> => {
    let records: Awaited<ReturnType<typeof listOrderRecords>> = [];
    const pages = await countPages(async (single) => {
      records = await listOrderRecords(single, { accountId, mode: "live" }, "0");
    });
    t.true(pages <= MAXIMUM_PAGES, `${statistics}: ${pages} pages`);
    t.is(records.length, 101);
    const kinds = new Set(records.map(({ kind }) => kind));
    t.deepEqual([...kinds].toSorted(), ["bottle", "donation", "tree"]);
  };

  await read("without statistics");
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) registration, donation`);
  await read("with statistics");
});
