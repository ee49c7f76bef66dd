import type { DatabasePool } from "slonik";
import { z } from "zod";
import { findMatchingTreeId } from "../../modules/stores/storeRegistrations.sql.ts";
import { sql } from "../../db/sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestStore } from "./startStoreApi.ts";

const test = testWithDatabase();

const TABLES = ["registration", "planting_order"];
const ORDERS = 10;
const REGIONS = ["Coast", "Hills"];

/**
 * Inserts trees, one a minute, each two at a time. The first half of them are in planting orders, whose regions alternate.
 * Some are refunded, and some were not paid.
 */
const insertTrees = async (
  filler: DatabasePool,
  accountId: string,
  trees: number,
): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    INSERT INTO planting_order (
      public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, site_shares, created_at
    )
    SELECT
      ${accountId} || '-' || number, ${accountId}, 'live', 'simulated', 'Partner', 'Buyer', 'allocations', 1,
      jsonb_build_array(
        jsonb_build_object('region', 'Everywhere'),
        jsonb_build_object('region', (${sql.array(REGIONS, "text")})[1 + number % 2])
      ),
      now()
    FROM generate_series(0, ${ORDERS - 1}::integer) AS number
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO registration (
      id, account_id, mode, kind, count, refunded_count, created_at, unit_price_cents, planting_order_id
    )
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 'tree', 2, CASE number % 7 WHEN 0 THEN 2 WHEN 1 THEN 1 ELSE 0 END,
      '2026-05-01T00:00:00Z'::timestamptz + number / 2 * interval '1 minute', CASE WHEN number % 5 > 0 THEN 50 END,
      -- Neighbouring orders overlap.
      CASE WHEN number < ${trees / 2} THEN (
        SELECT planting_order.id
        FROM planting_order
        WHERE public_id = ${accountId} || '-' || (
          greatest(0, number - number % 3 * 100) * ${ORDERS}::integer / ${trees / 2}::integer
        )
      ) END
    FROM generate_series(0, ${trees - 1}::integer) AS number
  `);
};

const treeRow = z.strictObject({
  id: z.uuid(),
  position: z.string(),
  publicId: z.string().nullable(),
  regions: z.array(z.string()),
});

/** Lists the trees that a store may show, newest first. */
const listTrees = (db: DatabasePool, accountId: string) =>
  db.any(sql.type(treeRow)`
    SELECT
      registration.id,
      to_char(registration.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS position,
      planting_order.public_id AS "publicId",
      coalesce((SELECT jsonb_agg(lower(share ->> 'region')) FROM jsonb_array_elements(site_shares) AS share), '[]') AS regions
    FROM registration
    LEFT JOIN planting_order ON planting_order.id = planting_order_id
    WHERE registration.account_id = ${accountId} AND unit_price_cents IS NOT NULL AND registration.refunded_count < count
    ORDER BY registration.created_at DESC, registration.id DESC
  `);

const NO_CONDITION = { id: null, until: null, projectPublicId: null, region: null };

test.serial("the newest tree of the matching planting orders is selected", async (t) => {
  const { db, owner: filler } = t.context;
  const { id: accountId } = await createTestStore(db);
  const { id: otherId } = await createTestStore(db);
  await insertTrees(filler, accountId, 2000);
  await insertTrees(filler, otherId, 2000);
  const owner = { accountId, mode: "live" } as const;
  const trees = await listTrees(db, accountId);
  const times = [
    null,
    ...[0, 300, 700, 1000, 1100, 1101, 1102, 1103, trees.length - 1].map(
      (index) => trees[index]?.position ?? "",
    ),
  ];
  const projects = [null, `${accountId}-0`, `${accountId}-7`, `${otherId}-9`];
  const selections = times.flatMap((time) =>
    projects.flatMap((projectPublicId) =>
      [null, "COAST", "hills", "everywhere", "Nowhere"].map((region) => ({
        time,
        projectPublicId,
        region,
      })),
    ),
  );
  for (const { time, projectPublicId, region } of selections) {
    const expected = trees.find(
      ({ position, publicId, regions }) =>
        (time === null || position < time) &&
        (projectPublicId === null || publicId === projectPublicId) &&
        (region === null || regions.includes(region.toLowerCase())),
    );
    const until = time === null ? null : new Date(time);
    const selection = { until, projectPublicId, region };
    const found = await findMatchingTreeId(db, owner, { ...NO_CONDITION, ...selection });
    t.is(found, expected?.id ?? null, JSON.stringify(selection));
    if (expected) {
      const byId = { ...selection, id: expected.id };
      t.is(await findMatchingTreeId(db, owner, byId), expected.id);
      t.is(await findMatchingTreeId(db, owner, { ...byId, projectPublicId: "other" }), null);
    }
  }
});

/** They have 600 pages. Those of 3,000 orders of one tree each are searched in 9,000. */
const TREES = 40_000;
const MAXIMUM_PAGES = 100;

test.serial("a tree is selected without reading those in other orders, or in none", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const { id: accountId } = await createTestStore(t.context.db);
  const owner = { accountId, mode: "live" } as const;
  await stopAutovacuum(filler, TABLES);
  await insertTrees(filler, accountId, TREES);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
  const countPages = await createPageCounter(filler, db, TABLES);
  for (const selection of [
    { region: "Coast" },
    { region: "Nowhere" },
    { projectPublicId: `${accountId}-3` },
    { projectPublicId: "other" },
    { region: "Hills", until: new Date("2026-05-05T00:00:00Z") },
  ]) {
    const pages = await countPages((single) =>
      findMatchingTreeId(single, owner, { ...NO_CONDITION, ...selection }),
    );
    t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${JSON.stringify(selection)}: ${pages} pages`);
  }
});

test.serial(
  "a recent tree is selected, or none, without reading all of many orders that match",
  async (t) => {
    const { filler, db } = await openSinglePools(t);
    const { id: accountId } = await createTestStore(t.context.db);
    await stopAutovacuum(filler, TABLES);
    await filler.query(sql.typeAlias("void")`
    WITH planting_order AS (
      INSERT INTO planting_order (
        public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, site_shares, created_at
      )
      SELECT
        ${accountId} || '-' || number, ${accountId}, 'live', 'simulated', 'Partner', 'Buyer', 'allocations', 1,
        '[{"region": "Coast"}]', now()
      FROM generate_series(1, 3000) AS number
      RETURNING id
    )
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, unit_price_cents, planting_order_id
    )
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 'tree', 1, '2026-05-01T00:00:00Z'::timestamptz + id * interval '1 minute', 50, id
    FROM planting_order
  `);
    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
    const [newest] = await listTrees(filler, accountId);
    const countPages = await createPageCounter(filler, db, TABLES);
    const beforeAll = { until: new Date("2026-04-01T00:00:00Z") };
    for (const [selection, expected] of [
      [{ region: "coast" }, newest?.id ?? ""],
      [beforeAll, null],
    ] as const) {
      const pages = await countPages(async (single) => {
        const owner = { accountId, mode: "live" } as const;
        const found = await findMatchingTreeId(single, owner, { ...NO_CONDITION, ...selection });
        t.is(found, expected);
      });
      t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${JSON.stringify(selection)}: ${pages} pages`);
    }
  },
);
