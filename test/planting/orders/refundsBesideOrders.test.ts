import { setTimeout as delay } from "node:timers/promises";
import { listPlantedSites } from "../../../modules/planting/tallies.sql.ts";
import { sql } from "../../../db/sql.ts";
import { getDashboardSlug } from "../../../modules/dashboard/getDashboardSlug.ts";
import { readDashboard } from "../../../modules/dashboard/readDashboard.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { testWithDatabase } from "../../support/database.ts";
import { openDeadlockPool, runBehindLocks } from "../../support/lockWaits.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { createRandom } from "../../support/random.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

// Serial, because planting orders are created of all accounts' trees.
for (const seed of [1, 2, 3, 4, 5, 6]) {
  test.serial(
    `refunds beside the creation of planting orders and the planting of their trees leave equal sums everywhere (${seed})`,
    async (t) => {
      const { db, deadlocks } = await openDeadlockPool(t, t.context.databaseUrl);
      const setup = await setUpPlanting(db);
      const { clock, deps, organization } = setup;
      const random = createRandom(seed);
      const counts = Array.from({ length: 12 }, () => 2 + random.below(8));
      const half = counts.length / 2;
      const first = await Promise.all(counts.slice(0, half).map((count) => setup.register(count)));
      await setup.createOrders();
      const second = await Promise.all(counts.slice(half).map((count) => setup.register(count)));
      const ids = [...first, ...second];
      const refunds = ids.flatMap((id, index) => {
        const count = counts[index] ?? 0;
        // Whole registrations, parts in two refunds, and none.
        return [
          [{ id, count }],
          [
            { id, count: 1 },
            { id, count: count - 1 },
          ],
          [{ id, count: 1 }],
          [],
        ][index % 4]!;
      });
      const refunded = refunds.reduce((sum, { count }) => sum + count, 0);
      const remaining = counts.reduce((sum, count) => sum + count, 0) - refunded;
      const order = async (delayMs: number): Promise<void> => {
        await delay(delayMs);
        await setup.createOrders();
        await setup.place();
      };

      const refundSome = (isFirstHalf: boolean) =>
        refunds
          .filter((_, index) => index < refunds.length / 2 === isFirstHalf)
          .map(async ({ id, count }) => {
            await delay(random.below(40));
            await setup.refund(id, count);
          });
      const pass = async (): Promise<void> => {
        for (let stage = 0; stage < 4; stage += 1) {
          await setup.pass(STAGE_MS);
        }
      };

      await Promise.all([...refundSome(true), order(random.below(20)), order(random.below(40))]);
      await Promise.all([...refundSome(false), order(random.below(40)), pass()]);
      await order(0);
      await pass();

      t.deepEqual(deadlocks, []);
      t.like(await readAccountSums(db, organization.id), {
        refunded: BigInt(refunded),
        total: BigInt(remaining),
        usage: BigInt(remaining),
      });
      const orders = await setup.orders();
      t.is(
        orders.reduce((sum, { treeCount, refundedCount }) => sum + treeCount - refundedCount, 0),
        remaining,
      );
      const slug = await getDashboardSlug({ db, clock }, organization.id);
      const dashboard = await readDashboard(deps, slug);
      t.like(dashboard?.trees, {
        total: remaining,
        month: remaining,
        planted: remaining,
        plantedAndVerified: remaining,
      });
      const sites = await listPlantedSites(db, organization.id, true);
      t.is(
        sites.reduce((sum, { planted }) => sum + planted, 0),
        remaining,
      );
    },
  );
}

test.serial(
  "a refund waits for the planting of its trees, and subtracts them from the planted ones",
  async (t) => {
    const { db } = t.context;
    const setup = await setUpPlanting(db, { timeline: "sessions" });
    const planted = async () =>
      (await listPlantedSites(db, setup.organization.id, true)).reduce(
        (sum, site) => sum + site.planted,
        0,
      );
    const id = await setup.register(5);
    await setup.createOrders();
    await setup.place();

    // The fact has the order's lock, and waits for the site.
    await runBehindLocks<readonly unknown[]>(
      db,
      (transaction) =>
        transaction.query(sql.typeAlias("void")`LOCK TABLE planting_tally IN EXCLUSIVE MODE`),
      () => setup.pass(4 * STAGE_MS),
      () => setup.refund(id, 2),
    );

    t.is(await planted(), 3);
  },
);
