import { z } from "zod";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { listPlantedSites } from "../../../modules/planting/tallies.sql.ts";
import { sql } from "../../../db/sql.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { testWithDatabase, openTestPool } from "../../support/database.ts";
import { planting, SITE, startTreeMapperPlanting } from "./startTreeMapperPlanting.ts";
import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { creditOrder, lockClaims } from "../../../modules/planting/claims.sql.ts";
import { claimTrees } from "../../../modules/planting/pollPlantingOrder.ts";
import { eventually } from "../../support/programs.ts";
import { runBehindLocks, whileOpen } from "../../support/lockWaits.ts";

const test = testWithDatabase().serial;

/** Lists the trees of records that are credited to orders. */
const credits = (t: DatabaseTest, references: readonly string[]) =>
  t.context.db.any(sql.type(z.strictObject({ reference: z.string(), trees: z.bigint() }))`
    SELECT reference, sum(trees)::bigint AS trees
    FROM planting_claim
    WHERE reference = ANY(${sql.array(references, "text")})
    GROUP BY reference
    ORDER BY reference
  `);

const PLANTED = ["funds_distributed accepted", "allocated accepted", "planted accepted"];

test("an order is planted when the project has recorded all its trees since it was placed", async (t) => {
  const { state, setup, order, poll, factsOf } = await startTreeMapperPlanting(t);
  const id = await order(100);
  state.interventions = [
    planting("before", "2026-06-30", [500]),
    planting("first", "2026-07-05", [40, 20]),
    { id: "other", type: "fire-patrol" },
  ];
  setup.clock.set("2026-07-06T10:00:00.000Z");
  t.false((await poll(id)).isFinished);
  t.deepEqual(await factsOf(id), ["funds_distributed accepted"]);
  state.interventions = [...state.interventions, planting("second", "2026-07-08", [300], "")];
  setup.clock.set("2026-07-09T10:00:00.000Z");
  t.true((await poll(id)).isFinished);
  t.deepEqual(await factsOf(id), PLANTED);
  const sites = await listPlantedSites(t.context.db, setup.organization.id, false);
  const plantedAtSites = sites.map(({ name, country, planted }) => [name, country, planted]);
  t.deepEqual(plantedAtSites, [
    ["North Bank", "India", 60],
    ["Yamuna Floodplain", "India", 40],
  ]);
  t.true(Math.abs((sites[0]?.latitude ?? 0) - 28.617) < 0.001);
  t.true(Math.abs((sites[0]?.longitude ?? 0) - 77.234) < 0.001);
  await poll(id);
  t.is((await factsOf(id)).length, 3);
});

test("concurrent polls credit no tree to two orders", async (t) => {
  const { state, setup, order, poll } = await startTreeMapperPlanting(t);
  const ids = [await order(70), await order(70), await order(70)];
  state.interventions = [planting("one", "2026-07-05", [100]), planting("two", "2026-07-06", [60])];
  setup.clock.set("2026-07-10T10:00:00.000Z");
  await Promise.all([...ids, ...ids].map(poll));
  const stages = (await setup.orders()).map(({ stage }) => stage);
  t.is(stages.filter((stage) => stage === "planted").length, 2);
  t.deepEqual(await credits(t, ["one", "two"]), [
    { reference: "one", trees: 100n },
    { reference: "two", trees: 60n },
  ]);
  state.interventions = [...state.interventions, planting("three", "2026-07-07", [50])];
  for (const id of ids) {
    await poll(id);
  }
  const finalStages = (await setup.orders()).map(({ stage }) => stage);
  t.deepEqual(finalStages, ["planted", "planted", "planted"]);
});

test("an order that was placed late is credited with trees planted since", async (t) => {
  const { state, setup, create, place, poll, factsOf } = await startTreeMapperPlanting(t);
  const id = await create(50);
  state.status = 503;
  await t.throwsAsync(place(id), { message: /TreeMapper returned 503/u });
  state.status = 200;
  setup.clock.set("2026-07-05T10:00:00.000Z");
  await place(id);
  state.interventions = [planting("early", "2026-07-02", [50])];
  await poll(id);
  state.interventions = [...state.interventions, planting("late", "2026-07-06", [50])];
  setup.clock.set("2026-07-07T10:00:00.000Z");
  await poll(id);
  t.deepEqual(await factsOf(id), PLANTED);
});

test("unusable names, countries, images and plantings without a location are left out", async (t) => {
  const { state, setup, order, poll, factsOf } = await startTreeMapperPlanting(t);
  const id = await order(30);
  state.project = { ...state.project, country: "India" };
  state.sites = [
    { ...SITE, name: " ", image: "north-bank.jpg" },
    { ...SITE, uid: "site_2", name: "x".repeat(201), location: { type: "Unknown" }, image: "/a" },
  ];
  const nowhere = { ...planting("nowhere", "2026-07-02", [30], ""), geometry: null };
  state.interventions = [
    nowhere,
    { ...nowhere, id: "no-corners", geometry: { type: "Polygon", coordinates: [[]] } },
    { ...nowhere, id: "off-earth", geometry: { type: "Point", coordinates: [77, 128] } },
    {
      ...planting("unnamed", "2026-07-05", [10]),
      coordinates: [{ image: "https://" }, { image: `https://cdn.example/${"x".repeat(2000)}` }],
    },
  ];
  setup.clock.set("2026-07-06T10:00:00.000Z");
  await poll(id);
  t.deepEqual(await factsOf(id), ["funds_distributed accepted"]);
  const shapeless = planting("shapeless", "2026-07-07", [20], "site_2");
  state.interventions = [...state.interventions, shapeless];
  setup.clock.set("2026-07-08T10:00:00.000Z");
  t.true((await poll(id)).isFinished);
  const site = { planting_site: { name: "Yamuna Floodplain", country: "unknown", main_image: "" } };
  const contents = (await listFacts(t.context.db, id)).map(({ content }) => content);
  const unnamed = { reference: "unnamed", ...site };
  const allocations = { 0: unnamed, 1: { ...unnamed, reference: "shapeless" }, length: 2 };
  const [first, second] = ["https://cdn.example/unnamed.jpg", "https://cdn.example/shapeless.jpg"];
  const media = { 0: { url: first }, 1: { url: second }, length: 2 };
  t.like(contents, { 1: { allocations }, 2: { media }, length: 3 });
});

test("an order is not placed while TreeMapper rejects the key", async (t) => {
  const { order } = await startTreeMapperPlanting(t, { apiKey: "tm_wrong" });
  await t.throwsAsync(order(5), { message: /TreeMapper returned 401/u });
});

test("a record that cannot be read is credited to no order, and stops none", async (t) => {
  const { state, setup, order, poll, factsOf, unusable } = await startTreeMapperPlanting(t);
  const id = await order(30);
  const good = planting("good", "2026-07-05", [20]);
  state.sites = [SITE, { ...SITE, uid: "site_2", name: null }];
  state.interventions = [
    null,
    { ...good, id: "undated", interventionStartDate: null },
    { ...good, id: "x".repeat(201) },
    { ...good, id: "nul\0" },
    { ...good, id: "backwards", interventionStartDate: "2066-01-01 05:30:00" },
    { ...good, id: "uncounted", plantedSpecies: [{ treeCount: "many" }] },
    { ...good, id: "nowhere", plantProjectSite: null, geometry: null },
    good,
  ];
  setup.clock.set("2026-07-06T10:00:00.000Z");
  await poll(id);
  t.deepEqual(await credits(t, ["undated", "backwards", "uncounted", "good"]), [
    { reference: "good", trees: 20n },
  ]);
  t.deepEqual(unusable, [
    { count: 7, firstIds: ["undated", "x".repeat(100), "nul\0", "backwards", "uncounted"] },
  ]);
  state.interventions = [...state.interventions, planting("rest", "2026-07-06", [10], "site_2")];
  setup.clock.set("2026-07-07T10:00:00.000Z");
  t.true((await poll(id)).isFinished);
  t.is((await factsOf(id)).at(-1), "planted accepted");
});

test("a poll fails if there are records, and none can be read", async (t) => {
  const { state, order, poll } = await startTreeMapperPlanting(t);
  const id = await order(30);
  state.interventions = [{ ...planting("renamed", "2026-07-05", [30]), interventionEndDate: 0 }];
  await t.throwsAsync(poll(id), { message: /interventionEndDate/u });
});

test("a record that TreeMapper lists twice is credited once", async (t) => {
  const { state, setup, order, poll } = await startTreeMapperPlanting(t);
  const [first, second] = [await order(30), await order(30)];
  const twice = planting("twice", "2026-07-05", [40]);
  state.interventions = [twice, twice];
  setup.clock.set("2026-07-06T10:00:00.000Z");
  t.true((await poll(first)).isFinished);
  t.false((await poll(second)).isFinished);
  t.deepEqual(await credits(t, ["twice"]), [{ reference: "twice", trees: 40n }]);
});

test("each site gets its trees, however many records credit an order", async (t) => {
  const { state, setup, order, poll } = await startTreeMapperPlanting(t);
  const id = await order(150);
  state.sites = [SITE, { ...SITE, uid: "site_2", name: "South Bank" }];
  state.interventions = Array.from({ length: 150 }, (_, index) => ({
    ...planting(`tree-${index}`, "2026-07-05", [], index < 110 ? "site_1" : "site_2"),
    type: "single-tree-registration",
  }));
  setup.clock.set("2026-07-06T10:00:00.000Z");
  t.true((await poll(id)).isFinished);
  const sites = await listPlantedSites(t.context.db, setup.organization.id, false);
  const plantedAtSites = sites.map(({ name, planted }) => [name, planted]);
  t.deepEqual(plantedAtSites, [
    ["North Bank", 110],
    ["South Bank", 40],
  ]);
});

test("orders polled at the same time share one download", async (t) => {
  const { state, setup, order, pollNow, advance, requested } = await startTreeMapperPlanting(t);
  const ids = [await order(10), await order(10), await order(10)];
  const downloads = () => requested.filter((resource) => resource === "interventions").length;
  t.is(downloads(), 0, "placing an order needs no records");
  setup.clock.set("2026-07-10T10:00:00.000Z");
  state.interventions = [planting("shared", "2026-07-05", [20])];

  await Promise.all(ids.map(pollNow));
  advance(60_000);
  for (const id of ids) {
    await pollNow(id);
  }
  t.is(downloads(), 1);
  const [waiting, ...others] = (await setup.orders()).filter(({ stage }) => stage !== "planted");
  t.deepEqual(others, []);

  state.interventions = [...state.interventions, planting("unshared", "2026-07-06", [10])];
  advance(5 * 60_000);
  state.status = 503;
  await t.throwsAsync(pollNow(waiting?.id ?? 0), { message: /TreeMapper returned 503/u });
  state.status = 200;
  t.true((await pollNow(waiting?.id ?? 0)).isFinished, "a failed download is not shared");
});

const NEVER = new AbortController().signal;

/** Counts the connections that wait for the lock of claims. */
const countWaiting = (db: CommonQueryMethods): Promise<bigint> =>
  db.oneFirst(sql.type(z.strictObject({ waiting: z.bigint() }))`
    SELECT count(*) AS waiting
    FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
  `);

const lockAllClaims = (transaction: DatabaseTransactionConnection) =>
  lockClaims(transaction, "treemapper");

test("polls that wait for each other hold one connection", async (t) => {
  const db = await openTestPool(t, t.context.databaseUrl, 2);
  const { state, setup, order, pollNow } = await startTreeMapperPlanting(t, { db });
  const ids = [await order(10), await order(10), await order(10)];
  setup.clock.set("2026-07-10T10:00:00.000Z");
  state.interventions = [planting("enough", "2026-07-05", [30])];
  const { polls } = await whileOpen(t.context.db, lockAllClaims, async (transaction) => {
    const started = ids.map(pollNow);
    await eventually(async () => (await countWaiting(transaction)) === 1n);
    // Enough turns for all polls to get to their claims.
    for (let turn = 0; turn < 100; turn += 1) {
      await db.query(sql.typeAlias("void")`SELECT`);
    }
    t.is(await countWaiting(transaction), 1n);
    return { polls: started };
  });

  for (const { isFinished } of await Promise.all(polls)) {
    t.true(isFinished);
  }
  t.deepEqual(await credits(t, ["enough"]), [{ reference: "enough", trees: 30n }]);
});

const claimOf = (reference: string, trees: number) => ({ reference, trees });

test("claims of several processes credit no tree to two orders", async (t) => {
  const { db } = t.context;
  const { order } = await startTreeMapperPlanting(t);
  const orderOf = async () => ({ id: await order(70), partner: "treemapper", treeCount: 70 });
  const [elsewhere, here] = [await orderOf(), await orderOf()];
  const records = [claimOf("contested", 100)];
  const [claimed] = await runBehindLocks<readonly Awaited<ReturnType<typeof claimTrees>>[]>(
    db,
    async (transaction) => {
      await lockAllClaims(transaction);
      await creditOrder(transaction, elsewhere, records);
    },
    () => claimTrees(t.context, here, records, NEVER),
  );
  t.deepEqual(claimed, [claimOf("contested", 30)]);
});

test("an order is credited with what others have left of its records", async (t) => {
  const { order } = await startTreeMapperPlanting(t);
  const [first, second] = [await order(100), await order(100)];
  const claim = (id: number, ...records: readonly ReturnType<typeof claimOf>[]) =>
    claimTrees(t.context, { id, partner: "treemapper", treeCount: 100 }, records, NEVER);

  const all = [claimOf("a", 60), claimOf("b", 30), claimOf("c", 10)];
  t.deepEqual(await claim(first, claimOf("a", 60), claimOf("b", 30), claimOf("c", 50)), all);
  t.deepEqual(
    await claim(second, claimOf("a", 10), claimOf("b", 40), claimOf("c", 50), claimOf("e", 1)),
    [claimOf("b", 10), claimOf("c", 40), claimOf("e", 1)],
    "a record that shrank below its claims has nothing left",
  );
  t.deepEqual(
    await claim(second, claimOf("b", 35), claimOf("c", 70)),
    [claimOf("b", 5), claimOf("c", 60)],
    "an incomplete order follows its records",
  );
  const rest = [claimOf("c", 1), claimOf("b", 1), claimOf("a", 1)];
  const kept = await claim(first, claimOf("new", 100), ...rest);
  t.deepEqual(kept.toReversed(), all, "a complete order keeps its trees");
  t.deepEqual(
    await claim(first, claimOf("b", 35), claimOf("a", 60), claimOf("d", 50)),
    [claimOf("b", 30), claimOf("a", 60), claimOf("d", 10)],
    "until one of its records is deleted",
  );
  t.deepEqual(await claim(second), []);
});
