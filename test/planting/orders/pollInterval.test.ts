import { sql } from "../../../db/sql.ts";
import {
  findPlantingOrdersToStart,
  readPollIntervalMs,
} from "../../../modules/planting/findPlantingOrdersToStart.ts";
import { openSinglePools } from "../../support/countPages.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

const MINUTE_MS = 60 * 1000;
const plantingPollMs = 10 * MINUTE_MS;

test("very many open orders are polled less often, and count as lost later", async (t) => {
  const { filler: owner, db } = await openSinglePools(t);
  const { clock, organization } = await setUpPlanting(db);
  const lost = async (minutes: number): Promise<boolean> => {
    clock.set(new Date(Date.parse("2026-05-01T10:00:00.000Z") + minutes * MINUTE_MS).toISOString());
    return (await findPlantingOrdersToStart({ db, clock, plantingPollMs })).length > 0;
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

  t.is(await readPollIntervalMs({ db, plantingPollMs }), plantingPollMs);
  await insertOrders(1000, false);
  await insertOrders(10_000, true);
  t.is(await readPollIntervalMs({ db, plantingPollMs }), plantingPollMs);
  t.false(await lost(29));
  t.true(await lost(31));

  await insertOrders(11_000, false);
  const minutes = (await readPollIntervalMs({ db, plantingPollMs })) / MINUTE_MS;
  t.true(minutes > 18 && minutes < 22, `${minutes} minutes`);
  t.false(await lost(50));
  t.true(await lost(70));
});
