import test from "ava";
import { z } from "zod";
import { sql, timestamp } from "../../../db/sql.ts";
import { readJson } from "../../cli/runImpact.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

test("units of a customer that two accounts have had explain the usage of one of them, if both are retried at the same time", async (t) => {
  const scene = await setUpRestore(t);
  const { original, customerId, control, stream, impact, pass } = scene;
  const { db } = original;
  const { id: other } = await createTestOrganization(db, {
    clock: original.deps.clock,
    stripeCustomerId: control.addCustomer({}).customerId,
  });
  const ids = await db.anyFirst(sql.type(z.object({ id: z.bigint() }))`
    INSERT INTO meter_event
      (
        account_id, mode, meter, second, sequence, quantity, identifier, processor, customer_id, state,
        outcome_unknown, sealed_at, settled_at
      )
    SELECT
      account_id, 'live', 'tree', ${NOON}, 1, 10, 'event-' || account_id, 'stripe', ${customerId}, 'blocked', true,
      now(), ${timestamp(new Date(NOON * 1000))}
    FROM unnest(${sql.array([stream.accountId, other], "uuid")}) AS account_id
    RETURNING id
  `);
  await scene.reportElsewhere(10, NOON);
  pass(16 * 60);
  const retry = (id: bigint | undefined) =>
    impact(original, "usage", "retry", String(id), "--json");

  const runs = await runBehindLocks(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`SELECT FROM meter_event ORDER BY id FOR UPDATE`),
    () => retry(ids[0]),
    () => retry(ids[1]),
  );

  t.is(runs.filter(({ exitCode }) => exitCode === 0).length, 1);
  t.true(runs.some(({ stdout }) => stdout.includes("changed in the meantime; try again")));
  const states = await db.anyFirst(sql.type(z.object({ state: z.string() }))`
    SELECT state FROM meter_event ORDER BY state
  `);
  t.deepEqual(states, ["blocked", "delivered"]);
  const repeated = await impact(original, "usage", "retry", "--all", "--json");
  t.like(readJson(repeated), [{ result: "waiting" }]);
});
