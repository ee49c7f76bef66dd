import { z } from "zod";
import { evidenceSummary } from "../../../api/planting/presentEvidenceSummary.ts";
import { updateAccount } from "../../../db/accounts/accounts.ts";
import { deleteCachedResponses } from "../../../db/planting/cachedResponses.ts";
import { sql } from "../../../db/sql.ts";
import { EVIDENCE_STAGES } from "../../../domain/planting/timeline.ts";
import { getDashboardSlug } from "../../../services/dashboard/getDashboardSlug.ts";
import { readDashboard } from "../../../services/dashboard/readDashboard.ts";
import { clearCachedResponses } from "../../../services/planting/evidence/clearCachedResponses.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestPlanting, STAGE_MS } from "../../support/planting.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { setUpPlanting } from "../setUpPlanting.ts";
import { createAndPlace, eventsOf, openOwnDatabase, startEvidenceApi } from "./evidenceApi.ts";

const test = testWithDatabase();

const DAY_MS = 86_400_000;
/** A registration of this count exhausts the sums of a database. */
const MOST = Number.MAX_SAFE_INTEGER;

const totalOf = (text: string): number =>
  evidenceSummary.parse(JSON.parse(text)).summary.total_trees;

test.serial(
  "the summary counts all organizations' live trees and, once trees are planted, stays the same for 30 days",
  async (t) => {
    const { setup, read, serve } = await startEvidenceApi(t);
    const other = await serve();
    await deleteCachedResponses(t.context.db, null);
    await setup.register(3, { mode: "test" });
    await setup.register(7);
    const nothing = await read("/evidence");
    t.is(nothing.headers.get("Cache-Control"), "private, no-cache");
    await createAndPlace(setup);
    await setup.pass(3 * STAGE_MS);
    const before = await read("/evidence");
    const endMs = setup.clock.now().getTime() + 30 * DAY_MS;
    await setup.register(100);
    t.is((await read("/evidence")).text, before.text);
    setup.clock.set(new Date(endMs - 1000).toISOString());
    const cached = await other.read("/evidence");
    t.is(cached.text, before.text);
    t.is(cached.headers.get("Cache-Control"), "private, max-age=2592000");
    setup.clock.set(new Date(endMs).toISOString());
    const after = evidenceSummary.parse(JSON.parse((await other.read("/evidence")).text));
    const earlier = evidenceSummary.parse(JSON.parse(nothing.text));
    t.is(after.summary.total_trees, earlier.summary.total_trees + 100);
    t.is(after.summary.trees_planted, earlier.summary.trees_planted + 7);
    t.true(after.summary.carbon_offset_tons > earlier.summary.carbon_offset_tons);
    t.true(after.summary.area_restored_hectares > earlier.summary.area_restored_hectares);
    t.true(after.regions.some(({ evidence }) => evidence.length > 0));
    t.deepEqual(after.summary.countries, [...new Set(after.regions.map(({ country }) => country))]);
  },
);

test.serial("a summary without planted trees stays the same for ten seconds", async (t) => {
  const { setup, read, serve } = await startEvidenceApi(t, { db: await openOwnDatabase(t) });
  const other = await serve();
  await setup.register(7);
  const first = await read("/evidence");
  await setup.register(100);

  const cached = await other.read("/evidence");
  t.is(cached.text, first.text);
  t.is(cached.headers.get("Cache-Control"), "private, no-cache");

  setup.clock.set(new Date(setup.clock.now().getTime() + 10_000).toISOString());
  t.deepEqual(
    [first, await other.read("/evidence")].map(({ text }) => totalOf(text)),
    [7, 107],
  );
});

test.serial(
  "the dashboard URL is stable, and a missing key has another error than a wrong one",
  async (t) => {
    const { read, url, setup } = await startEvidenceApi(t, { name: "Möbel & Söhne <GmbH>" });
    const first = await read("/dashboard_url");
    const body = z.record(z.string(), z.string()).parse(JSON.parse(first.text));
    t.regex(
      body["dashboard_url"] ?? "",
      /^https:\/\/impact\.example\/dashboard\/mobel-sohne-gmbh-[a-z2-9]{8}$/u,
    );
    t.is(body["org_id"], setup.organization.id);
    await updateAccount(t.context.db, setup.organization.id, { name: "New name" });
    t.is((await read("/dashboard_url", { mode: "test" })).text, first.text);
    const missing = await fetch(`${url}/dashboard_url`);
    t.is(missing.status, 401);
    t.deepEqual(await missing.json(), { error: "missing Authorization header" });
    const wrong = await fetch(`${url}/dashboard_url`, { headers: { Authorization: "wrong" } });
    t.is(wrong.status, 403);
    t.deepEqual(await wrong.json(), { error: "invalid API key" });
    t.is((await fetch(`${url}/evidence`)).status, 403);
  },
);

test.serial(
  "the summary and the dashboard count simulated trees marked, and not at all with a real partner",
  async (t) => {
    const { setup, read, serve } = await startEvidenceApi(t, { db: await openOwnDatabase(t) });
    const id = await setup.register(7);
    await createAndPlace(setup);
    await setup.pass(3 * STAGE_MS);

    const simulated = await read("/evidence");
    t.is(simulated.headers.get("Evidence-Simulated"), "true");
    const { summary, regions } = evidenceSummary.parse(JSON.parse(simulated.text));
    t.like(summary, { total_trees: 7, trees_planted: 7, trees_planted_simulated: 7 });
    t.true(regions.length > 0 && regions.every((region) => region.simulated));

    const planting = createTestPlanting({ partner: "manual" });
    const real = await serve({ planting });
    const after = await real.read("/evidence");
    t.is(after.headers.get("Evidence-Simulated"), null);
    t.deepEqual(evidenceSummary.parse(JSON.parse(after.text)), {
      summary: {
        total_trees: 7,
        trees_planted: 0,
        trees_planted_simulated: 0,
        carbon_offset_tons: 0,
        area_restored_hectares: 0,
        countries: [],
      },
      regions: [],
    });
    const slug = await getDashboardSlug(setup.deps, setup.organization.id);
    const before = await readDashboard(setup.deps, slug);
    t.like(before, { trees: { planted: 7 }, isPartnerSimulated: true });
    const dashboard = await readDashboard({ ...setup.deps, planting }, slug);
    t.like(dashboard, {
      trees: { total: 7, planted: 0, plantedAndVerified: 0 },
      isPartnerSimulated: false,
    });
    t.deepEqual([dashboard?.sites, dashboard?.media], [[], []]);

    // The order was simulated, whatever the deployment does now.
    const tree = await real.read(`/evidence/tree/${id}`);
    t.true(tree.json.simulated);
    t.is(tree.headers.get("Evidence-Simulated"), "true");
    const newId = await setup.register(1);
    const unordered = await real.read(`/evidence/tree/${newId}`);
    t.false(unordered.json.simulated);
    t.is(unordered.headers.get("Evidence-Simulated"), null);
  },
);

test.serial(
  "a registration of the largest count is planted and verified like any other",
  async (t) => {
    const { setup, read } = await startEvidenceApi(t, {
      db: await openOwnDatabase(t),
      timeline: "sessions",
    });
    const id = await setup.register(MOST);
    for (const stage of EVIDENCE_STAGES) {
      const { status, json } = await read(`/evidence/tree/${id}?evidence_stage=${stage}`);
      t.is(status, 200);
      t.is(json.status, stage);
    }
    await createAndPlace(setup);
    await setup.pass(3 * STAGE_MS);
    const { status, json } = await read(`/evidence/tree/${id}`);
    t.is(status, 200);
    t.deepEqual(eventsOf(json), [
      "1 registered completed",
      "2 funds_distributed completed",
      "3 planted_and_verified completed",
    ]);
  },
);

test.serial("the summary of all accounts is limited to the largest safe integer", async (t) => {
  const db = await openOwnDatabase(t);
  const { setup, read } = await startEvidenceApi(t, { db });
  const others = [await setUpPlanting(db), await setUpPlanting(db)];
  for (const account of [setup, ...others]) {
    await account.register(MOST);
    await createAndPlace(account);
    await account.pass(3 * STAGE_MS);
  }
  const { status, text } = await read("/evidence");
  t.is(status, 200);
  const { summary } = evidenceSummary.parse(JSON.parse(text));
  t.is(summary.total_trees, MOST);
  t.is(summary.trees_planted, MOST);
  t.true(summary.carbon_offset_tons > 0);
});

test.serial(
  "a summary that is calculated while the cache is cleared is cleared, too",
  async (t) => {
    const db = await openOwnDatabase(t);
    const { setup, read } = await startEvidenceApi(t, { db });
    await setup.register(7);
    await createAndPlace(setup);

    const [, deleted] = await runBehindLocks<[unknown, number]>(
      db,
      (transaction) => transaction.query(sql.typeAlias("void")`LOCK TABLE impact_total`),
      () => read("/evidence"),
      () =>
        clearCachedResponses(
          { db, clock: setup.clock, actor: { kind: "operator", name: "ops", reason: null } },
          { kind: "summary" },
        ),
    );

    t.is(deleted, 1);
    t.false(
      await db.exists(sql.typeAlias("void")`SELECT FROM cached_response WHERE key ~ '^summary'`),
    );
  },
);

test.serial("the parts of the summary are of the same moment", async (t) => {
  const db = await openOwnDatabase(t);
  const { setup, read } = await startEvidenceApi(t, { db });
  await setup.register(7);
  await createAndPlace(setup);
  await read("/evidence");
  await deleteCachedResponses(db, null);

  // The summary waits for the registered trees, and meanwhile they are planted.
  const [response] = await runBehindLocks(
    db,
    (transaction) => transaction.query(sql.typeAlias("void")`LOCK TABLE impact_total`),
    () => read("/evidence"),
    () => setup.pass(3 * STAGE_MS),
  );

  const { summary, regions } = evidenceSummary.parse(JSON.parse(response.text));
  t.deepEqual([summary.trees_planted, summary.countries.length, regions.length], [7, 1, 1]);
});
