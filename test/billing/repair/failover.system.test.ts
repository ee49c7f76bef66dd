import { migrate } from "../../../db/migrate.ts";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { createRandom } from "../../support/random.ts";
import { openTestPool, testWithDatabase } from "../../support/database.ts";
import { startCluster } from "../../support/startCluster.ts";
import { createSavedDatabase } from "../../support/savedDatabase.ts";
import { createRepairs } from "../convergence/repairs.ts";
import { createWorld } from "../convergence/world.ts";
import { resumeUsage } from "../../../modules/billing/holdUsage.ts";

const test = testWithDatabase();

const STEP_SECONDS = 5;

test("after a failover to an asynchronous standby that lost two minutes, every minute is billed once", async (t) => {
  const cluster = await startCluster(t);
  await migrate(cluster.primaryUrl);
  const databaseUrl = cluster.primaryUrl;
  const db = await openTestPool(t, databaseUrl, 3);
  const database = createSavedDatabase({ db, databaseUrl, ownerUrl: databaseUrl });
  const world = await createWorld(t, database, { accounts: 1 });
  const random = createRandom(7);
  const accountId = world.accountIds[0] ?? "";
  /** Registrations and refunds of some seconds, of which most are sent meanwhile. */
  const work = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second += STEP_SECONDS) {
      await world.register(accountId, 1 + random.below(9));
      const earlier = world.registrations().at(-6);
      if (random.below(10) === 0 && earlier !== undefined) {
        await world.refund(earlier, 1);
      }
      world.pass(STEP_SECONDS);
      if (random.below(4) > 0) {
        await world.send();
      }
    }
  };
  await work(90);
  await cluster.disconnectStandby();
  const kept = structuredClone(world.registrations());
  await work(120);
  await db.end();
  await cluster.failOver();
  const promoted = await openTestPool(t, cluster.standbyUrl, 3);

  // The promoted server holds usage by itself, and clients go on.
  await world.continueWith(promoted, kept);
  t.like((await readDeployment(promoted)).hold, { by: "restore guard" });
  await world.register(accountId, 1000);
  await world.send();
  await resumeUsage(world.deps());
  await createRepairs(world, random, (command) => command()).finish();

  t.deepEqual(await world.compareWithTruth(), {});
  t.deepEqual(await world.compareWithStripe(), {});
  t.deepEqual(world.control.problems(), []);
});
