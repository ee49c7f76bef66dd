import test from "ava";
import { readJson } from "../../cli/runImpact.ts";
import { setUpAcknowledged } from "./acknowledgedSetup.ts";
import { NOON } from "./restoreSetup.ts";

test("a correction takes back no usage of a minute in which usage has failed since drift was acknowledged", async (t) => {
  const scene = await setUpAcknowledged(t, [7, 5], { lost: [1] });
  await scene.report(1);
  const restoredAt = new Date(NOON * 1000).toISOString();
  const options = ["--restored-at", restoredAt, "--reason", "failover", "--json"];

  const corrected = readJson(await scene.run("settle", ...options));

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 7 });
  t.like(corrected, { corrections: [{ action: "wait" }] });
  t.like(await scene.retry(1), [{ result: "delivered" }]);
  t.like(readJson(await scene.run("settle", ...options)), { corrections: [] });
});
