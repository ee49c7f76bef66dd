import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

const tallyRow = z.strictObject({
  factorId: z.string(),
  planted: z.bigint(),
  verified: z.bigint(),
});

test("planted trees keep their factor when they are refunded and verified, whatever the table of factors is by then", async (t) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db);
  const registrationId = await setup.register(10);
  await setup.createOrders();
  await setup.place();
  await setup.pass(2 * STAGE_MS);
  const [order] = await setup.orders();
  t.is(order?.stage, "planted");
  const earlier = order?.siteShares[0]?.factorId === "mangrove-1" ? "terrestrial-1" : "mangrove-1";
  await db.query(sql.typeAlias("void")`
    UPDATE planting_tally
    SET factor_id = ${earlier}
    WHERE account_id = ${setup.organization.id}
  `);
  await db.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET site_shares = jsonb_set(site_shares, '{0,factorId}', to_jsonb(${earlier}::text))
    WHERE account_id = ${setup.organization.id}
  `);

  await setup.refund(registrationId, 4);
  await setup.pass(STAGE_MS);

  const tallies = await db.any(sql.type(tallyRow)`
    SELECT factor_id AS "factorId", planted, verified
    FROM planting_tally
    WHERE account_id = ${setup.organization.id}
  `);
  t.deepEqual(tallies, [{ factorId: earlier, planted: 6n, verified: 6n }]);
});
