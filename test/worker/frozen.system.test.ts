import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { testWithDatabase } from "../support/database.ts";
import { registerFor } from "../support/factories.ts";
import { awaitBlocked } from "../support/lockWaits.ts";
import { eventually } from "../support/programs.ts";
import { deployAtStripe } from "./deployAtStripe.ts";

const test = testWithDatabase();

test("a worker that is stopped after acquiring the lease, and continues when it is over, does not send under it", async (t) => {
  const { db, owner } = t.context;
  const { control, startWorker, subscriber } = await deployAtStripe(t);
  const { id, customerId } = subscriber;
  const { sends } = control;
  const readEvent = (connection: CommonQueryMethods = db) =>
    connection.one(sql.type(
      z.strictObject({ state: z.string(), attempts: z.int(), isLeased: z.boolean().nullable() }),
    )`
      SELECT state, attempts, leased_until > now() AS "isLeased" FROM meter_event WHERE account_id = ${id}
    `);
  // The commit of a lease waits for the test.
  await owner.query(sql.typeAlias("void")`
    CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$
  `);
  await owner.query(sql.typeAlias("void")`
    CREATE CONSTRAINT TRIGGER wait_for_test AFTER UPDATE ON meter_event DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.leased_until IS NOT NULL) EXECUTE FUNCTION wait_for_test()
  `);
  // Attempts fail until the test holds the event between two of them.
  for (let index = 0; index < 50; index += 1) {
    control.addFault({ kind: "server_error" });
  }
  const worker = await startWorker();
  await registerFor(db, id, { count: 4 });
  await eventually(() => sends() > 0);

  let before = { attempts: 0, sends: 0 };
  /** Stops the worker in the commit of the next lease; false if an attempt is running. */
  const freeze = (): Promise<boolean> =>
    db.transaction(async (transaction) => {
      await transaction.query(
        sql.typeAlias("void")`SELECT FROM (SELECT pg_advisory_xact_lock(1)) AS locked`,
      );
      const { attempts, isLeased } = await readEvent(transaction);
      if (isLeased !== null) {
        return false;
      }
      await awaitBlocked(transaction);
      worker.process.kill("SIGSTOP");
      before = { attempts, sends: sends() };
      return true;
    });
  await eventually(freeze);
  control.clearFaults();
  await eventually(async () => (await readEvent()).attempts === before.attempts + 1);
  await eventually(async () => (await readEvent()).isLeased === false);
  t.is(sends(), before.sends);
  worker.process.kill("SIGCONT");

  await eventually(async () => (await readEvent()).state === "delivered");
  // The attempt under the old lease made no call. On a busy machine, the next lease may be over as well before its call.
  t.true((await readEvent()).attempts >= before.attempts + 2);
  t.is(sends(), before.sends + 1);
  const billed = control.usage({ customerId }).map(({ value }) => value);
  t.deepEqual(billed, [4]);
});
