import { evidenceSummary } from "../../../api/planting/presentEvidenceSummary.ts";
import { EVIDENCE_STAGES } from "../../../domain/planting/timeline.ts";
import { testWithDatabase } from "../../support/database.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { eventsOf, createAndPlace, startEvidenceApi } from "./evidenceApi.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

const MOST = Number.MAX_SAFE_INTEGER;

// In their own file, because their registrations exhaust the sums of a database.
test.serial(
  "a registration of the largest count is planted and verified like any other",
  async (t) => {
    const { setup, read } = await startEvidenceApi(t, { timeline: "sessions" });
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
  const { setup, read } = await startEvidenceApi(t);
  const others = [await setUpPlanting(t.context.db), await setUpPlanting(t.context.db)];
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
