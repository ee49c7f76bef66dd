import { evidenceSummary } from "../../../api/endpoints/presentEvidenceSummary.ts";
import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { sql } from "../../../db/sql.ts";
import { deleteSummaries } from "../../../modules/planting/summary.sql.ts";
import { readDashboard } from "../../../modules/dashboard/readDashboard.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import {
  simulateAllocated,
  simulatePlanted,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestPlanting, STAGE_MS } from "../../support/planting.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { setUpPlanting } from "../setUpPlanting.ts";
import { openOwnDatabase, startEvidenceApi } from "./evidenceApi.ts";

const test = testWithDatabase().serial;

/** A registration of this count exhausts the sums of a database. */
const MOST = Number.MAX_SAFE_INTEGER;

const summaryIn = ({ text }: { readonly text: string }) => {
  const { summary, regions } = evidenceSummary.parse(JSON.parse(text));
  return {
    ...summary,
    regions,
    photos: regions.flatMap(({ evidence }) => evidence).length,
    simulated: [...new Set(regions.map((region) => region.simulated))],
  };
};

const placesOf = (given: { readonly text: string }) => {
  const { trees_planted, countries, regions } = summaryIn(given);
  return [trees_planted, countries.length, regions.length];
};

test("the summary stays the same for 30 days, whatever is registered, with every process", async (t) => {
  const db = await openOwnDatabase(t);
  const { setup, read, serve } = await startEvidenceApi(t, { db });
  const other = await setUpPlanting(db);
  await setup.register(3, { mode: "test" });
  await setup.register(7);
  await other.register(1);
  const first = await read("/evidence");
  t.is(summaryIn(first).total_trees, 8);
  const endMs = setup.clock.now().getTime() + 30 * DAY_MS;

  const id = await setup.register(100);
  await setup.refund(id, 50);
  await setup.createAndPlace();
  setup.clock.set(new Date(endMs - 1000).toISOString());
  const restarted = await serve();
  for (const { text, headers } of [await read("/evidence"), await restarted.read("/evidence")]) {
    t.is(text, first.text);
    t.is(headers.get("ETag"), first.headers.get("ETag"));
  }
  setup.clock.set(new Date(endMs).toISOString());
  t.is(summaryIn(await restarted.read("/evidence")).total_trees, 58);
});

test("trees that are planted, and later verified, renew the summary", async (t) => {
  const { setup, read, serve } = await startEvidenceApi(t, { db: await openOwnDatabase(t) });
  const other = await serve();
  await setup.register(7);
  const empty = await read("/evidence");
  await setup.createAndPlace();
  await setup.pass(STAGE_MS);
  t.is((await read("/evidence")).text, empty.text);

  await setup.pass(STAGE_MS);
  const planted = await other.read("/evidence");
  await setup.register(100);
  t.is((await read("/evidence")).text, planted.text);
  const before = summaryIn(planted);
  t.like(before, { total_trees: 7, trees_planted: 7 });
  t.true(before.carbon_offset_tons > 0);
  t.true(before.area_restored_hectares > 0);
  t.deepEqual(before.countries, [...new Set(before.regions.map(({ country }) => country))]);
  t.true(before.photos > 0);

  await setup.pass(STAGE_MS);
  const verified = summaryIn(await read("/evidence"));
  t.is(verified.total_trees, 107);
  t.true(verified.photos > before.photos);
});

test("a test key reads the summary of test mode, which is simulated", async (t) => {
  const { setup, read } = await startEvidenceApi(t, {
    db: await openOwnDatabase(t),
    partner: "manual",
  });
  await setup.register(5);
  await setup.register(7, { mode: "test" });
  await setup.createAndPlace();
  const live = await read("/evidence");
  await setup.pass(3 * STAGE_MS);

  const inTest = await read("/evidence", { mode: "test" });
  t.is(inTest.headers.get("Evidence-Simulated"), "true");
  const { regions, ...summary } = summaryIn(inTest);
  t.like(summary, { total_trees: 7, trees_planted: 7, trees_planted_simulated: 7 });
  t.true(regions.every(({ simulated, evidence }) => simulated && evidence.length > 0));

  t.is(live.headers.get("Evidence-Simulated"), null);
  t.like(summaryIn(live), { total_trees: 5, trees_planted: 0, countries: [] });
  t.is((await read("/evidence")).text, live.text);
});

test("simulated trees are in another summary than real ones", async (t) => {
  const db = await openOwnDatabase(t);
  const real = await setUpPlanting(db, { partner: "manual" });
  await real.register(5);
  await real.createAndPlace();
  const order = await real.firstOrder();
  const at = real.clock.now();
  const facts = [simulateAllocated(order, at), simulatePlanted(order, at)];
  await recordPlantingFacts(real.deps, order.id, facts, "operator");
  const { setup, read, serve } = await startEvidenceApi(t, { db });
  await setup.register(7);
  await setup.plant();

  const shown = summaryIn(await read("/evidence"));
  t.like(shown, { trees_planted: 7, trees_planted_simulated: 7, simulated: [true] });
  const manual = await serve({ planting: real.deps.planting });
  const others = summaryIn(await manual.read("/evidence"));
  t.like(others, { trees_planted: 5, trees_planted_simulated: 0, simulated: [false] });
});

test("the dashboard counts simulated trees, and not at all with a real partner, but their evidence stays", async (t) => {
  const { setup, serve } = await startEvidenceApi(t, { db: await openOwnDatabase(t) });
  const id = await setup.register(7);
  await setup.plant();

  const planting = createTestPlanting({ partner: "manual" });
  const real = await serve({ planting });
  const account = { accountId: setup.organization.id, name: "" };
  const before = await readDashboard(setup.deps, account);
  t.like(before, { trees: { planted: 7 }, isPartnerSimulated: true });
  const dashboard = await readDashboard({ ...setup.deps, planting }, account);
  t.like(dashboard, {
    trees: { total: 7, planted: 0, plantedAndVerified: 0 },
    isPartnerSimulated: false,
  });
  t.deepEqual([dashboard.sites, dashboard.media], [[], []]);

  // The order was simulated, whatever the deployment does now.
  const tree = await real.read(`/evidence/tree/${id}`);
  t.true(tree.json.simulated);
  t.is(tree.headers.get("Evidence-Simulated"), "true");
  const newId = await setup.register(1);
  const unordered = await real.read(`/evidence/tree/${newId}`);
  t.false(unordered.json.simulated);
  t.is(unordered.headers.get("Evidence-Simulated"), null);
});

test("the largest registration is planted like any other, and the summary of all is limited to it", async (t) => {
  const db = await openOwnDatabase(t);
  const { setup, read } = await startEvidenceApi(t, { db, timeline: "sessions" });
  const others = [await setUpPlanting(db), await setUpPlanting(db)];
  for (const account of [setup, ...others]) {
    const id = await account.register(MOST);
    await account.plant();
    if (account === setup) {
      t.is((await read(`/evidence/tree/${id}`)).json.status, "planted_and_verified");
    }
  }
  const all = summaryIn(await read("/evidence"));
  t.like(all, { total_trees: MOST, trees_planted: MOST });
  t.true(all.carbon_offset_tons > 0);
});

test("a summary that is calculated while trees are planted is renewed", async (t) => {
  const db = await openOwnDatabase(t);
  const { setup, read } = await startEvidenceApi(t, { db });
  await setup.register(7);
  await setup.createAndPlace();
  await read("/evidence");
  await db.transaction((transaction) => deleteSummaries(transaction, null));

  // The summary waits for the registered trees, and meanwhile they are planted.
  const [during] = await runBehindLocks(
    db,
    (transaction) => transaction.query(sql.typeAlias("void")`LOCK TABLE impact_total`),
    () => read("/evidence"),
    () => setup.pass(3 * STAGE_MS),
  );

  t.deepEqual(placesOf(during), [0, 0, 0]);
  t.deepEqual(placesOf(await read("/evidence")), [7, 1, 1]);
});
