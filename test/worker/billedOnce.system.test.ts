import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { listWaitingStreams } from "../../modules/billing/sending/waitingStreams.sql.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { getDeploymentName } from "../../modules/billing/holdUsage.ts";
import { inDeployment } from "../../runtime/temporalNames.rules.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { awaitBlocked } from "../support/lockWaits.ts";
import { eventually, readStatus } from "../support/programs.ts";
import { deployAtStripe } from "./deployAtStripe.ts";
import { registerFor } from "../support/factories.ts";

// Serial, because a worker serves everything that waits in the database of the file.
const test = testWithDatabase().serial;

const plantReply = z.object({ tree_details: z.array(z.object({ id: z.uuid() })) });
const refundReply = z.object({ refund_id: z.string() });

test("a registration is billed, its refund is reported at the same second, and the refund's workflow completes", async (t) => {
  const { client, startWorker, startApi, post, billed, control } = await deployAtStripe(t);
  await startWorker();
  const api = await startApi();

  const planted = await post(api, "/plant/trees", { count: 12 });
  t.is(planted.status, 200);
  const {
    tree_details: [tree],
  } = plantReply.parse(await planted.json());
  await eventually(() => billed() === 12);
  const refunded = await post(api, "/refund/trees", { id: tree?.id });
  t.is(refunded.status, 200);
  const { refund_id: refundId } = refundReply.parse(await refunded.json());

  t.is(refundId, `refund-${tree?.id}`);
  await eventually(() => billed() === 0);
  const name = await getDeploymentName({ db: t.context.db, clock: systemClock });
  const workflowId = inDeployment(name, refundId);
  await eventually(async () => (await readStatus(client, workflowId)) === "COMPLETED");
  t.is(new Set(control.events().map(({ second }) => second)).size, 1);
  t.is(control.events().length, 2);
});

test("registrations that were confirmed before the API was killed are recorded, and a retry records the rest once", async (t) => {
  const { db } = t.context;
  const { startWorker, startApi, post, billed, subscriber } = await deployAtStripe(t);
  const accountId = subscriber.id;
  const first = await startApi();
  const requests = Array.from({ length: 1000 }, (_, index) => ({
    count: 1 + (index % 3),
    idempotency_key: `order-${index}`,
  }));
  const confirmed = requests.slice(0, 40);
  const register = async (api: typeof first, body: unknown): Promise<number> => {
    const response = await post(api, "/plant/trees", body);
    await response.json();
    return response.status;
  };
  const statuses = await Promise.all(confirmed.map((body) => register(first, body)));
  t.true(statuses.every((status) => status === 200));

  // While the account's total is locked, no further registration can be written or confirmed.
  const outcomes = await db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`
        SELECT FROM impact_total WHERE account_id = ${accountId} FOR UPDATE
      `);
    const sending = requests.slice(confirmed.length).map((body) => register(first, body));
    const settled = Promise.allSettled(sending);
    await awaitBlocked(transaction);
    await first.kill();
    return settled;
  });
  t.true(outcomes.every(({ status }) => status === "rejected"));
  t.true((await readAccountSums(db, accountId)).registrations >= confirmed.length);

  const second = await startApi();
  // In portions: a busy machine takes longer than fetch's connection timeout to accept 1,000 connections.
  for (let from = 0; from < requests.length; from += 100) {
    const portion = requests.slice(from, from + 100);
    const retried = await Promise.all(portion.map((body) => register(second, body)));
    t.true(retried.every((status) => status === 200));
  }
  await startWorker();

  const expected = requests.reduce((sum, { count }) => sum + count, 0);
  await eventually(() => billed() === expected);
  const sums = await readAccountSums(db, accountId);
  t.is(sums.registrations, requests.length);
  t.is(sums.total, BigInt(expected));
});

test("the usage of many organizations is billed once if one of two workers is killed while it sends", async (t) => {
  const { db } = t.context;
  const { control, startWorker, subscribers } = await deployAtStripe(t, { organizations: 24 });
  const register = (count: number) =>
    Promise.all(subscribers.map(({ id }) => registerFor(db, id, { count })));
  const billed = (customerId: string): readonly number[] =>
    control
      .events()
      .filter((event) => event.customerId === customerId)
      .map(({ value }) => value);
  const first = await startWorker();
  // Calls hang until the worker is dead: half of them before Stripe has recorded the usage, and half after.
  control.addFault({ kind: "hang", applied: true, times: 12 });
  control.addFault({ kind: "hang", times: 1_000_000 });
  await register(5);
  await eventually(() => control.held() === subscribers.length);

  await startWorker();
  await first.kill();
  control.clearFaults();
  await register(7);

  await eventually(async () => (await listWaitingStreams(db)).length === 0);
  for (const { customerId } of subscribers) {
    t.deepEqual(billed(customerId), [5, 7]);
  }
  t.is(control.overlaps(), 0);
});

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
