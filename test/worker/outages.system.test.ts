import { z } from "zod";
import { sumLedgerUnits } from "../support/accountSums.ts";
import { listWaitingStreams } from "../../modules/billing/sending/waitingStreams.sql.ts";
import { sql } from "../../db/sql.ts";
import { PERPETUAL_KINDS } from "../../runtime/perpetualWork.rules.ts";
import { testWithDatabase } from "../support/database.ts";
import { registerFor } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { deployAtStripe } from "./deployAtStripe.ts";

const test = testWithDatabase();

/** More than a worker's slots for activities. */
const ORGANIZATIONS = 260;

test("while Stripe fails and then never responds, the senders are as few as before, the usage of the ledger is billed, and afterwards everything once", async (t) => {
  const { db } = t.context;
  const { control, client, startWorker, subscribers } = await deployAtStripe(t, {
    organizations: ORGANIZATIONS,
  });
  /** Counts the running workflows, except for those of planting. */
  const countWorkflows = async (): Promise<number> =>
    (
      await client.workflow.count(
        'ExecutionStatus = "Running" AND WorkflowType NOT IN ("plantingOrder", "plantingOrderCreation")',
      )
    ).count;
  control.addFault({ kind: "server_error", times: 3 * ORGANIZATIONS });
  control.addFault({ kind: "hang", times: 1_000_000 });
  await Promise.all(subscribers.map(({ id }) => registerFor(db, id)));
  await startWorker();
  // All calls hang.
  await eventually(async () => {
    const row = z.strictObject({ attempts: z.int().nullable() });
    const attempts = await db.oneFirst(
      sql.type(row)`SELECT min(attempts) AS attempts FROM meter_event`,
    );
    return attempts !== null && attempts > 3;
  });

  const accountId = subscribers[0]?.id ?? "";
  await registerFor(db, accountId, { mode: "test", count: 3 });
  await eventually(
    async () => (await sumLedgerUnits(db, { accountId, mode: "test", kind: "tree" })) === 3,
  );
  t.is(await countWorkflows(), PERPETUAL_KINDS.length);
  t.deepEqual(control.events(), []);

  control.clearFaults();
  await eventually(() => control.held() === 0);
  // The delays between attempts last up to a minute.
  await db.query(
    sql.typeAlias("void")`UPDATE meter_event SET retry_at = now() WHERE retry_at IS NOT NULL`,
  );
  await eventually(async () => (await listWaitingStreams(db)).length === 0);
  t.deepEqual(
    control
      .events()
      .map(({ customerId }) => customerId)
      .toSorted(),
    subscribers.map(({ customerId }) => customerId).toSorted(),
  );
  t.is(control.overlaps(), 0);
});
