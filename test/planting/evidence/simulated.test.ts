import { evidenceSummary } from "../../../api/planting/presentEvidenceSummary.ts";
import { getDashboardSlug } from "../../../services/dashboard/getDashboardSlug.ts";
import { readDashboard } from "../../../services/dashboard/readDashboard.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestPlanting, STAGE_MS } from "../../support/planting.ts";
import { createAndPlace, startEvidenceApi } from "./evidenceApi.ts";

const test = testWithDatabase();

test.serial(
  "the summary and the dashboard count simulated trees marked, and not at all with a real partner",
  async (t) => {
    const { setup, read, serve } = await startEvidenceApi(t);
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
    t.is(before?.trees.planted, 7);
    const dashboard = await readDashboard({ ...setup.deps, planting }, slug);
    t.like(dashboard, { trees: { total: 7, planted: 0, plantedAndVerified: 0 } });
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

test.serial("a test key's trees are simulated with every partner", async (t) => {
  const { setup, read } = await startEvidenceApi(t, { partner: "manual" });
  const id = await setup.register(7, { mode: "test" });
  const path = `/evidence/tree/${id}`;
  t.true((await read(path, { mode: "test" })).json.simulated);
  await createAndPlace(setup);
  const { json, headers } = await read(path, { mode: "test" });
  t.is(json.status, "funds_distributed");
  t.true(json.simulated);
  t.is(headers.get("Evidence-Simulated"), "true");
});

test.serial(
  "evidence_stage works with a live key, and says in the body that it is simulated",
  async (t) => {
    const { setup, read } = await startEvidenceApi(t, { partner: "manual" });
    const id = await setup.register(7);
    const { status, json, headers } = await read(`/evidence/tree/${id}?evidence_stage=planted`);
    t.is(status, 200);
    t.true(json.simulated);
    t.is(headers.get("Evidence-Simulated"), "true");
    t.is(Object.keys(json.provider_meta ?? {}).length, 5);
  },
);
