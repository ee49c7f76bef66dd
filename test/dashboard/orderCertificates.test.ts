import { findCertified, listOrderRecords } from "../../modules/dashboard/certificates.sql.ts";
import { sql } from "../../db/sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";

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

test("the URL of an order stays the same when an older record of it is imported", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db);
  const api = await startStoreApi(t, { db });
  const readUrl = async () => {
    const path = "/app/api/order_certificate_url?order_id=1001";
    return String((await api.get(path, store.test)).body["certificate_url"]);
  };
  await api.post("/app/api/plastic", store.test, { bottles: 3, order_id: "#1001" });
  const url = await readUrl();

  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, order_id)
    VALUES (gen_random_uuid(), ${store.id}, 'test', 'tree', 2, now() - interval '7 days', '1001')
  `);
  t.is(await readUrl(), url);

  await api.post("/app/api/plant", store.test, { trees: 1, order_id: "1001" });
  t.is(await readUrl(), url);
  const token = url.split("/").at(-1) ?? "";
  const items = (await findCertified(db, [token])).get(token)?.items ?? [];
  t.deepEqual(
    items.map(({ kind }) => kind),
    ["tree", "bottle", "tree"],
  );
});
