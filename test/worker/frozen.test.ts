import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { systemClock } from "../../domain/clock.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test("a worker that is stopped after acquiring the lease, and continues when it is over, does not send under it", async (t) => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { control } = double;
  const { customerId, subscriptionId } = control.addSubscriber({});
  const { id } = await createTestOrganization(db, {
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  const { namespace } = await openNamespace(t);
  const sends = (): number =>
    control.calls().filter(({ path }) => path === "/v1/billing/meter_events").length;
  const readEvent = () =>
    db.one(sql.type(
      z.strictObject({ state: z.string(), attempts: z.int(), isLeased: z.boolean().nullable() }),
    )`
      SELECT state, attempts, leased_until > now() AS "isLeased" FROM meter_event WHERE account_id = ${id}
    `);
  control.addFault({ kind: "server_error" });
  const worker = await startProgram(t, "worker/main.ts", {
    DATABASE_URL: databaseUrl,
    TEMPORAL_NAMESPACE: namespace,
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  });
  const writer = createRegistrationWriter({ db, clock: systemClock });
  await writer.register(registrationOf(id, { count: 4 }));
  await eventually(() => sends() === 1);

  // The next attempt waits for this lock in the statement that acquires its lease.
  await db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`
      SELECT FROM meter_event WHERE account_id = ${id} FOR UPDATE
    `);
    await eventually(() =>
      transaction.exists(sql.typeAlias("void")`
        SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))
      `),
    );
    worker.process.kill("SIGSTOP");
  });
  await eventually(async () => (await readEvent()).attempts === 2);
  await eventually(async () => (await readEvent()).isLeased === false);
  t.is(sends(), 1);
  worker.process.kill("SIGCONT");

  await eventually(async () => (await readEvent()).state === "delivered");
  // The second attempt made no call.
  t.like(await readEvent(), { attempts: 3 });
  t.is(sends(), 2);
  t.deepEqual(
    control.usage({ customerId }).map(({ value }) => value),
    [4],
  );
});
