import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { getDeploymentName } from "../../../modules/billing/holdUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { listAllWaitingRefunds } from "../../support/listAllWaitingRefunds.ts";
import { eventually, openNamespace } from "../../support/programs.ts";
import { isStarted, refundOneTree, startDispatcher } from "./dispatching.ts";
import { refundWorkflowId } from "../../../runtime/temporalNames.rules.ts";

// Serial, because a dispatcher serves everything that waits in the database of the file.
const test = testWithDatabase().serial;

test("one signal is sent for all waiting refunds of a registration", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const { id: accountId } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const { registration } = await writer.register(
    registrationOf(accountId, { mode: "test", count: 30 }),
  );
  const deps = { db, clock: systemClock, billing: createBilling({ db, stripe: null }) };
  const owner = { accountId, mode: "test", kind: "tree" } as const;
  for (let refund = 1; refund <= 30; refund += 1) {
    const { id } = registration;
    await refundRegistration(deps, owner, { id, count: 1, reason: null, idempotencyKey: null });
  }

  await startDispatcher(t, { db, temporal });

  await eventually(async () => (await listAllWaitingRefunds(db)).length === 0);
  const deployment = await getDeploymentName({ db, clock: systemClock });
  const { events } = await temporal.workflow
    .getHandle(refundWorkflowId(deployment, registration.id))
    .fetchHistory();
  t.is(events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length, 1);
});

test("refunds that stay waiting do not keep those of other accounts from being started", async (t) => {
  const { db, owner } = t.context;
  const { client: temporal } = await openNamespace(t);
  // As many accounts as a pass starts workflows of. Their ids are before those of new accounts.
  await owner.query(sql.typeAlias("void")`
      WITH number AS (
        SELECT lpad(number::text, 12, '0') AS digits FROM generate_series(1, 200) AS number
      ),
      registered AS (
        INSERT INTO registration (id, account_id, mode, kind, count, created_at, attribution, usage_batch)
        SELECT
          gen_random_uuid(), ('00000000-0000-7000-8000-' || digits)::uuid, 'live', 'tree', 1, now(), '', 0
        FROM number
        RETURNING id, account_id
      )
      INSERT INTO refund (id, registration_id, account_id, count, created_at)
      SELECT gen_random_uuid(), id, account_id, 1, now() FROM registered
    `);
  await owner.query(sql.typeAlias("void")`
      CREATE FUNCTION stay_waiting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$
    `);
  await owner.query(sql.typeAlias("void")`
      CREATE TRIGGER stay_waiting BEFORE UPDATE ON refund FOR EACH ROW
      WHEN (new.account_id < '00000000-0000-7000-8000-000000001000') EXECUTE FUNCTION stay_waiting()
    `);
  const refund = await refundOneTree(db);

  await startDispatcher(t, { db, temporal });

  await eventually(() => isStarted(temporal, refund));
  t.is((await listAllWaitingRefunds(db)).length, 200);
});
