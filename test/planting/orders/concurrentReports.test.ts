import { sql } from "../../../db/sql.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import { simulateAllocated } from "../../../modules/planting/simulated/simulatedFacts.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { testWithDatabase } from "../../support/database.ts";
import { openDeadlockPool, runBehindLocks } from "../../support/lockWaits.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

test("reports of two orders do not wait for each other because of sites that both name", async (t) => {
  const { db, deadlocks } = await openDeadlockPool(t, t.context.databaseUrl);
  const setup = await setUpPlanting(db, { partner: "manual" });
  await setup.order(2, 2, 2);
  await setup.place();
  const [first, second, third] = await setup.orders();
  const [allocation] = first
    ? simulateAllocated(first, new Date("2026-05-01T09:00:00.000Z")).allocations
    : [];
  if (!first || !second || !third || !allocation) {
    throw new Error("There are three orders, and an allocation.");
  }
  const factOf = (publicId: string, sites: readonly string[]): PlantingFact => ({
    stage: "allocated",
    occurred_at: "2026-05-01T09:00:00.000Z",
    allocations: sites.map((site) => ({
      ...allocation,
      reference: `${publicId}/${site}`,
      trees: 1,
      planting_site: { ...allocation.planting_site, reference: site },
    })),
  });
  const report = ({ id, publicId }: typeof first, sites: readonly string[]) =>
    recordPlantingFacts({ ...setup.deps, db }, id, [factOf(publicId, sites)], "operator");
  await report(third, ["north", "south"]);

  // Each waits for the reference of its first allocation, between its two sites.
  await runBehindLocks<readonly unknown[]>(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`
        INSERT INTO partner_reference (partner, kind, reference)
        VALUES
          (${first.partner}, 'allocation', ${`${first.publicId}/north`}),
          (${second.partner}, 'allocation', ${`${second.publicId}/south`})
      `),
    () => report(first, ["north", "south"]),
    () => report(second, ["south", "north"]),
  );

  t.deepEqual(deadlocks, []);
  const orders = await setup.orders();
  t.deepEqual(
    orders.map(({ siteShares }) => siteShares.length),
    [2, 2, 2],
  );
});
