import { sql } from "../../../db/sql.ts";
import {
  readPollIntervalMs,
  startPlantingOrders,
} from "../../../modules/planting/startPlantingOrders.ts";
import { openSinglePools } from "../../support/countPages.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

const NEVER = new AbortController().signal;
const HOUR_MS = 60 * 60 * 1000;

test("very many open orders are polled less often, and count as lost later", async (t) => {
  const { filler: owner, db } = await openSinglePools(t);
  const { clock, organization } = await setUpPlanting(db);
  const startedAfter = async (hours: number): Promise<number> => {
    clock.set(new Date(Date.parse("2026-05-01T10:00:00.000Z") + hours * HOUR_MS).toISOString());
    let started = 0;
    const startOrder = (): Promise<void> => {
      started += 1;
      return started > 50 ? Promise.reject(new Error("enough")) : Promise.resolve();
    };
    await startPlantingOrders({ db, clock, startOrder }, NEVER).catch(() => undefined);
    return started;
  };
  /** Inserts orders that were polled at 10:00. */
  const insertOrders = async (count: number, isFinished: boolean): Promise<void> => {
    await db.query(sql.typeAlias("void")`
      INSERT INTO planting_order (
        public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, created_at,
        workflow_started_at, polled_at, finished_at
      )
      SELECT
        gen_random_uuid()::text, ${organization.id}, 'live', 'treemapper', 'p', 'b', 'allocations', 1, polled,
        polled, polled, CASE WHEN ${isFinished} THEN polled END
      FROM generate_series(1, ${count}), (SELECT '2026-05-01T10:00:00Z'::timestamptz) AS time (polled)
    `);
    await owner.query(sql.typeAlias("void")`ANALYZE planting_order`);
  };

  await insertOrders(20, false);
  await insertOrders(10_000, true);
  t.is(await readPollIntervalMs({ db }), HOUR_MS);
  t.is(await startedAfter(2.9), 0);
  t.is(await startedAfter(3.1), 20);

  await insertOrders(72_000, false);
  const hours = (await readPollIntervalMs({ db })) / HOUR_MS;
  t.true(hours > 1.9 && hours < 2.1, `${hours} hours`);
  t.is(await startedAfter(5), 0);
  t.true((await startedAfter(7)) > 0);
});
