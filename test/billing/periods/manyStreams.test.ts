import { unhurriedPace } from "../../../db/createBulkPace.ts";
import { sql } from "../../../db/sql.ts";
import { sumUnsealed } from "../../../modules/billing/reconciliation/sumOwnUsage.ts";
import { testWithDatabase } from "../../support/database.ts";

const test = testWithDatabase();

/** More than a function can have as arguments. */
const STREAMS = 130_000;

test("the waiting usage of all streams is summed together once clients no longer record", async (t) => {
  const { db, owner } = t.context;
  await owner.query(sql.typeAlias("void")`
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
    SELECT gen_random_uuid(), 'live', 'tree', 0, 2, number
    FROM generate_series(1, ${STREAMS}::integer) AS number
  `);
  let checks = 0;
  const pace = {
    ...unhurriedPace,
    isYielding: () => {
      checks += 1;
      return checks <= 2;
    },
  };

  const sums = await sumUnsealed(db, pace, { start: 0, end: STREAMS + 1 }, null);

  t.is(sums.length, STREAMS);
  t.true(sums.every(({ quantity }) => quantity === 2));
});
