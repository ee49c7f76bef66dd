import { listPlantingOrders } from "../../../modules/planting/orders.sql.ts";
import { sql } from "../../../db/sql.ts";
import { EVIDENCE_STAGES } from "../../../modules/planting/timeline.rules.ts";
import {
  pollPlantingOrder,
  placePlantingOrder,
} from "../../../modules/planting/pollPlantingOrder.ts";
import { createPlantingOrders } from "../../../modules/planting/createPlantingOrders.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestPlanting } from "../../support/planting.ts";
import { createTestStore, rowsIn, startStoreApiOf } from "../startStoreApi.ts";
import type { StoreApi, TestStore } from "../startStoreApi.ts";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { findMatchingTreeId } from "../../../modules/stores/storeTrees.sql.ts";
import { openPageCount } from "../../support/countPages.ts";

const test = testWithDatabase();

const PATH = "/app/api/evidence";

/** The ids of a store's tree records in test mode, newest first. */
const treeIds = async (get: StoreApi["get"], store: TestStore): Promise<readonly string[]> =>
  rowsIn((await get("/app/api/plant", store.test)).body, "trees").map(({ id }) => String(id));

test("evidence is of the newest tree, and one that was refunded in full is found only by its id", async (t) => {
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const { get, post, store } = await startStoreApiOf(t, { clock });
  await post("/app/api/plant", store.test, { trees: 1 });
  clock.set("2026-05-02T10:00:00.000Z");
  await post("/app/api/plant", store.test, { trees: 2 });
  const [newest = "", oldest] = await treeIds(get, store);
  const find = async (query: string) => (await get(`${PATH}${query}`, store.test)).body["tree_id"];
  const refund = () => post("/app/api/refund", store.test, { type: "tree", quantity: 1 });

  const { status, body, headers } = await get(PATH, store.test);
  t.is(status, 200);
  const ids = { tree_id: newest, record_id: newest, impact_type: "trees", region: "" };
  const created_at = "2026-05-02T10:00:00.000000Z";
  t.like(body, { ...ids, created_at, evidence_count: 1, status: "registered" });
  t.is(headers.get("Cache-Control"), "private, no-cache");
  const etag = { "If-None-Match": headers.get("ETag") ?? "" };
  t.is((await get(PATH, { ...store.test, ...etag })).status, 304);
  await refund();
  t.is(await find(""), newest);
  await refund();
  t.is(await find(""), oldest);
  t.is(await find("?created_at=2026-05-02"), oldest);
  t.is(await find(`?tree_id=${newest}`), newest);
  await refund();
  t.is((await get(PATH, store.test)).status, 404);
});

test("a date, or any timestamp of it, selects the newest record of the UTC day, or else the newest before it", async (t) => {
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const { get, post, store } = await startStoreApiOf(t, { clock });
  for (const time of [
    "2026-05-01T10:00:00.000Z",
    "2026-05-03T09:00:00.000Z",
    "2026-05-03T23:59:59.999Z",
    "2026-05-05T00:00:00.000Z",
  ]) {
    clock.set(time);
    await post("/app/api/plant", store.test, { trees: 1 });
  }
  const [third, second, , first] = await treeIds(get, store);

  for (const [given, expected] of [
    ["2026-05-01", first],
    ["2026-05-02", first],
    ["2026-05-03", second],
    ["2026-05-04", second],
    ["2026-05-05", third],
    ["9999-12-31", third],
    ["2026-05-03T00:00:00Z", second],
    ["2026-05-03T23:59:59.9999999Z", second],
    ["2026-05-02T23:59:59.9999999Z", first],
    ["2026-05-04T01:30:00%2B02:00", second],
    ["2026-05-02T22:30:00-02:00", second],
    ["2026-05-05T02:00%2B02:00", third],
  ]) {
    for (const name of ["created_at", "tree_date"]) {
      const { body } = await get(`${PATH}?${name}=${given}`, store.test);
      t.is(body["tree_id"], expected, given);
    }
  }
  t.is((await get(`${PATH}?created_at=2026-04-30`, store.test)).status, 404);
});

test("a stage is simulated for test keys only, and of any count", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  await post("/app/api/plant", store.test, { trees: Number.MAX_SAFE_INTEGER });
  await post("/app/api/plant", store.live, { trees: 1 });

  for (const stage of EVIDENCE_STAGES) {
    const simulated = await get(`${PATH}?evidence_stage=${stage}`, store.test);
    const steps = rowsIn(simulated.body, "timeline").map((each) => each["status"]);
    const evidence_count = steps.filter((status) => status === "completed").length;
    t.like(simulated, { status: 200, body: { status: stage, evidence_count } });
    t.is(simulated.headers.get("Evidence-Simulated"), "true");
    const refused = { status: 400, body: { code: "INVALID_PARAMETER" } };
    t.like(await get(`${PATH}?evidence_stage=${stage}`, store.live), refused);
  }
});

// Alone: it creates planting orders of every account in the database.
test.serial("a store's planted trees are found by their planting order and region", async (t) => {
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const planting = createTestPlanting();
  const options = { store: { balanceCents: 1000 }, clock, planting };
  const { db, get, post, store } = await startStoreApiOf(t, options);
  await post("/app/api/plant", store.live, { trees: 3 });
  const signal = new AbortController().signal;
  const deps = { db, clock, planting };
  await createPlantingOrders(deps, signal);
  const [order] = await listPlantingOrders(db, { accountId: store.id, limit: 10 });
  t.is(order?.treeCount, 3);
  await placePlantingOrder(deps, order?.id ?? 0, signal);
  for (const time of ["2026-05-02T10:00:00Z", "2026-05-03T10:00:00Z", "2026-05-04T10:00:00Z"]) {
    clock.set(time);
    await pollPlantingOrder(deps, order?.id ?? 0, signal);
  }
  await post("/app/api/plant", store.live, { trees: 1 });

  const projectId = String(order?.publicId);
  const found = await get(`${PATH}?project_public_id=${projectId}`, store.live);
  t.like(found, { status: 200, body: { status: "planted_and_verified" } });
  const region = String(found.body["region"]);
  t.not(region, "");
  t.is(found.headers.get("Cache-Control"), "private, no-cache");
  const byId = await get(`${PATH}?tree_id=${String(found.body["tree_id"])}`, store.live);
  t.is(byId.headers.get("Cache-Control"), "private, max-age=2592000");
  const byRegion = await get(`${PATH}?region=${encodeURIComponent(region)}`, store.live);
  t.is(byRegion.body["tree_id"], found.body["tree_id"]);
  t.is((await get(PATH, store.live)).body["status"], "registered");
  t.is((await get(`${PATH}?region=Nowhere`, store.live)).status, 404);
  t.is((await get(`${PATH}?project_public_id=po_other`, store.live)).status, 404);
  await db.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET site_shares = jsonb_set(site_shares, '{0,region}', '"Príncipe"')
    WHERE id = ${order?.id ?? 0}
  `);
  const combining = encodeURIComponent("Príncipe".normalize("NFD"));
  const byCombining = await get(`${PATH}?region=${combining}`, store.live);
  t.is(byCombining.body["tree_id"], found.body["tree_id"]);

  await post("/app/api/refund", store.live, { type: "tree", quantity: 2 });
  const [after] = await listPlantingOrders(db, { accountId: store.id, limit: 10 });
  t.is(after?.refundedCount, 1);
});

test("malformed parameters are rejected, and records of other stores and of the other mode are not found", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  const other = await createTestStore(t.context.db);
  await post("/app/api/plant", store.test, { trees: 1 });
  const [id = ""] = await treeIds(get, store);

  for (const query of [
    "impact_type=bottles",
    "created_at=yesterday",
    "created_at=2026-02-30T10:00:00Z",
    "created_at=2026-01-01&tree_date=2026-01-02",
    `id=${id}&tree=${crypto.randomUUID()}`,
  ]) {
    const expected = { status: 400, body: { code: "INVALID_PARAMETER" } };
    t.like(await get(`${PATH}?${query}`, store.test), expected, query);
  }
  for (const headers of [store.live, other.test]) {
    for (const query of ["", `?id=${id}`]) {
      t.like(await get(`${PATH}${query}`, headers), { status: 404, body: { code: "NOT_FOUND" } });
    }
  }
  t.is((await get(`${PATH}?impact_type=trees&id=&region=`, store.test)).status, 200);
});

const TABLES = ["registration", "planting_order"];
const ORDERS = 10;
const REGIONS = ["Coast", "Hills"];

/**
 * Inserts trees, one a minute, each two at a time. The first half of them are in planting orders, whose regions alternate.
 * Some are refunded, and some were not paid.
 */
const insertTrees = async (filler: DatabasePool, accountId: string, trees: number) => {
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

/** They have 600 pages. */
const TREES = 40_000;
const MAXIMUM_PAGES = 100;

test.serial("the newest tree of matching orders is selected without reading others", async (t) => {
  const { filler, db, vacuum, readAtMost } = await openPageCount(t, TABLES);
  const { id: accountId } = await createTestStore(t.context.db);
  const { id: otherId } = await createTestStore(t.context.db);
  await insertTrees(filler, accountId, TREES);
  await insertTrees(filler, otherId, 2000);
  await vacuum();
  const trees = await listTrees(filler, accountId);
  const owner = { accountId, mode: "live" } as const;
  const middle = Math.round(trees.length / 2);
  for (const index of [null, 300, middle, middle + 1, middle + 2, trees.length - 1]) {
    const time = index === null ? null : (trees[index]?.position ?? null);
    for (const [projectPublicId, region] of [
      [null, null],
      [null, "COAST"],
      [null, "everywhere"],
      [null, "Nowhere"],
      [`${accountId}-0`, null],
      [`${accountId}-7`, "hills"],
      [`${otherId}-9`, null],
      ["other", "coast"],
    ] as const) {
      const expected = trees.find(
        ({ position, publicId, regions }) =>
          (time === null || position < time) &&
          (projectPublicId === null || publicId === projectPublicId) &&
          (region === null || regions.includes(region.toLowerCase())),
      );
      const until = time === null ? null : new Date(time);
      const selection = { id: null, until, projectPublicId, region };
      const name = JSON.stringify(selection);
      const find = () => findMatchingTreeId(db, owner, selection);
      t.is(await readAtMost(MAXIMUM_PAGES, find, name), expected?.id ?? null, name);
      if (expected) {
        const byId = { ...selection, id: expected.id };
        t.is(await findMatchingTreeId(db, owner, byId), expected.id);
        t.is(await findMatchingTreeId(db, owner, { ...byId, projectPublicId: "other" }), null);
      }
    }
  }
});
