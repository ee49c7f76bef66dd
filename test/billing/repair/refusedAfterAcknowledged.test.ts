import test from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { DELIVERED_LATE } from "../../../domain/billing/meterEvents.ts";
import { readJson } from "../../cli/runImpact.ts";
import { LAG_SECONDS, setUpAcknowledged, setUpMinute } from "./acknowledgedSetup.ts";
import { NOON } from "./restoreSetup.ts";

test("a correction takes back no usage of a minute in which usage has failed since drift was acknowledged", async (t) => {
  const scene = await setUpAcknowledged(t, [7, 5], { lost: [1] });
  await scene.report(1);
  const restoredAt = new Date(NOON * 1000).toISOString();
  const options = ["--restored-at", restoredAt, "--reason", "failover", "--json"];

  const corrected = readJson(await scene.run("correct", ...options));

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 7 });
  t.like(corrected, { corrections: [{ action: "wait" }] });
  t.like(await scene.retry(1), [{ result: "delivered" }]);
  t.like(readJson(await scene.run("correct", ...options)), { corrections: [] });
});

const settledRow = z.object({ last_error: z.string(), settled_at: z.date() });

test("a refusal that leaves settled usage delivered is in the event's last error", async (t) => {
  const scene = await setUpMinute(t, [5, 7], { lost: [0] });
  const { original } = scene;
  const settled = () =>
    original.db.one(sql.type(settledRow)`
      SELECT last_error, settled_at FROM meter_event WHERE quantity = 5
    `);
  await original.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET last_error = ${DELIVERED_LATE} WHERE quantity = 5
  `);
  t.is((await scene.settle(0)).exitCode, 0);
  scene.pass(LAG_SECONDS);
  t.is((await scene.run(...(await scene.findDifference()))).exitCode, 0);
  const before = await settled();

  await scene.report(0);

  t.deepEqual(await scene.states(), ["delivered", "delivered"]);
  const after = await settled();
  t.regex(
    after.last_error,
    /^refused after it was delivered at \S+: archived_meter: refused; before: settled: billed by hand/u,
  );
  await scene.report(0);
  t.deepEqual(await settled(), after);
  // A later time would count as a delivery that the sums may lack.
  t.deepEqual(after.settled_at, before.settled_at);
});
