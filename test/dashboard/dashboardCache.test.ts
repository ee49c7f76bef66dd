import { sql } from "../../db/sql.ts";
import { wrapPool } from "../../db/pools/wrapPool.ts";
import type { DatabasePool } from "slonik";
import { systemClock } from "../../domain/clock.ts";
import { createDashboardCache } from "../../services/dashboard/createDashboardCache.ts";
import { getDashboardSlug } from "../../services/dashboard/getDashboardSlug.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createTestPlanting } from "../support/planting.ts";

const test = testWithDatabase();

const MINUTE_MS = 60_000;
/** Of one read of a dashboard. */
const STATEMENTS = 6;

const countStatements = (db: DatabasePool) => {
  let statements = 0;
  const counted = wrapPool(db, (method) => (...parameters) => {
    statements += 1;
    return method(...parameters);
  });
  return { counted, count: () => statements };
};

test("all that shows a dashboard shares one read of the database", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const slug = await getDashboardSlug({ db, clock: systemClock }, id);
  const { counted, count } = countStatements(db);
  const { url } = await startStandaloneApi(t, { db: counted });
  const before = count();
  const responses = await Promise.all(
    ["", ".json", "/shields.json", "/badge.svg", "/card"].map((suffix) =>
      fetch(`${url}/dashboard/${slug}${suffix}`),
    ),
  );
  t.true(responses.every(({ status }) => status === 200));
  const statements = count() - before;
  // Each visitor may look up the slug before the first read has ended.
  t.true(statements <= STATEMENTS + responses.length, `${statements} statements`);
});

test("the dashboards of many accounts are each read once", async (t) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`
    WITH new_account AS (
      INSERT INTO account (id, type, name, created_at)
      SELECT gen_random_uuid(), 'organization', 'account-' || number, now()
      FROM generate_series(1000, 1599) AS number
      RETURNING id, name, created_at
    )
    INSERT INTO dashboard (account_id, slug, created_at)
    SELECT id, name, created_at FROM new_account
  `);
  const slugs = Array.from({ length: 600 }, (_, index) => `account-${1000 + index}`);
  const { counted, count } = countStatements(db);
  const deps = { db: counted, clock: systemClock, planting: createTestPlanting() };
  const dashboards = createDashboardCache(deps, { cachedMs: MINUTE_MS });
  for (const slug of [...slugs, ...slugs]) {
    t.is((dashboards.find(slug) ?? (await dashboards.read(slug)))?.slug, slug);
  }
  t.is(count(), STATEMENTS * slugs.length);
  t.is(await dashboards.read("unknown-slug"), undefined);

  const [first = "", second = "", third = ""] = slugs;
  const bytes = JSON.stringify(dashboards.find(first)).length;
  const small = createDashboardCache(deps, { cachedMs: MINUTE_MS, cachedBytes: 2.5 * bytes });
  for (const slug of [first, second, third]) {
    await small.read(slug);
  }
  t.is(small.find(first), undefined, "the oldest is evicted by bytes");
  t.is(small.find(third)?.slug, third);
});
