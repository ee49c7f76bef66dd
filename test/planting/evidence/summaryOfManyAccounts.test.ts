import { AsyncLocalStorage } from "node:async_hooks";
import type { DatabasePool, Interceptor } from "slonik";
import { renderEvidenceSummary } from "../../../api/endpoints/presentEvidenceSummary.ts";
import { runForClient } from "../../../runtime/client.ts";
import { lockSummary } from "../../../modules/planting/cachedResponses.sql.ts";
import { readSummary } from "../../../modules/planting/summary.sql.ts";
import { openPool } from "../../../db/pools/pool.ts";
import { sql } from "../../../db/sql.ts";
import { createSummaryReader } from "../../../modules/planting/createSummaryReader.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../../support/countPages.ts";
import { testWithDatabase } from "../../support/database.ts";
import { awaitBlocked } from "../../support/lockWaits.ts";
import { eventually } from "../../support/programs.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

// Serial, because a test counts the pages of its tables.
const test = testWithDatabase();

const ACCOUNTS = 2000;
const MONTHS = 30;
const SITES = 10;
/** The tallies have 460 pages, and the totals of all time 40 of the 1,170 of all totals. It was 1,615. */
const MAXIMUM_PAGES = 700;

const insertTotals = async (filler: DatabasePool): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    INSERT INTO account (id, type, name, created_at)
    SELECT gen_random_uuid(), 'organization', number::text, now()
    FROM generate_series(1, ${ACCOUNTS}::integer) AS number
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT id, 'live', 'tree', 'all', ${MONTHS} FROM account
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT id, 'live', 'tree', to_char(date '2024-01-01' + month * interval '1 month', 'YYYY-MM'), 1
    FROM generate_series(0, ${MONTHS - 1}::integer) AS month
    CROSS JOIN account
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO planting_site
      (partner, reference, name, subsite_name, organization_name, region, country, forest_type, latitude, longitude, main_image)
    SELECT 'manual', number::text, 'Site', '', 'Partner', 'Region', 'Country', 'terrestrial', 0, 0, ''
    FROM generate_series(1, ${SITES}::integer) AS number
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO planting_tally (account_id, mode, site_id, factor_id, planted, verified)
    SELECT account.id, 'live', planting_site.id, 'terrestrial-1', 1, 0
    FROM account
    CROSS JOIN planting_site
  `);
};

test.serial("the summary reads one total of each account, and the tallies once", async (t) => {
  const { filler, db: single } = await openSinglePools(t);
  const tables = ["impact_total", "planting_tally"];
  await stopAutovacuum(filler, tables);
  await insertTotals(filler);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
  const countPages = await createPageCounter(filler, single, tables);

  const pages = await countPages(async (db) => {
    const { registeredTrees, planted, regions } = await readSummary(db, 1, {
      mode: "live",
      isSimulated: false,
    });
    t.is(registeredTrees, ACCOUNTS * MONTHS);
    t.deepEqual(planted, [{ factorId: "terrestrial-1", trees: ACCOUNTS * SITES }]);
    t.is(regions.length, 1);
  });

  t.true(pages <= MAXIMUM_PAGES, `${pages} pages`);
});

test.serial("requests that wait for the summary use one connection", async (t) => {
  const { deps } = await setUpPlanting(t.context.db);
  let queries = 0;
  const counter: Interceptor = {
    name: "count-queries",
    afterQueryExecution: () => {
      queries += 1;
      return null;
    },
  };
  const pool = await openPool(t.context.databaseUrl, 4, 30_000, {
    interceptors: [counter],
    maximumWaitMs: 5000,
  });
  t.teardown(() => pool.end());
  const readCached = createSummaryReader({ ...deps, db: pool }, renderEvidenceSummary);
  const outside = AsyncLocalStorage.snapshot();

  const waiting = await t.context.db.transaction(async (transaction) => {
    await lockSummary(transaction);
    const started = outside(() =>
      ["one", "one", "two", "two"].map((account) =>
        runForClient(account, () => readCached("live")),
      ),
    );
    await eventually(() => Promise.resolve(queries === started.length));
    await awaitBlocked(transaction);
    await outside(() =>
      runForClient("another", () => pool.query(sql.typeAlias("void")`SELECT FROM account LIMIT 1`)),
    );
    t.is((await awaitBlocked(transaction)).length, 1);
    return { started };
  });

  const bodies = await Promise.all(waiting.started);
  t.is(new Set(bodies.map(({ body }) => body)).size, 1);
});
