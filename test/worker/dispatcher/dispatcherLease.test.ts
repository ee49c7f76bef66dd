import type { DatabasePool } from "slonik";
import {
  acquireDispatcherLease,
  readDispatcherStatus,
  recordDispatcherPass,
  releaseDispatcherLease,
  renewDispatcherLease,
} from "../../../db/billing/sending/dispatcherLease.ts";
import { listWaitingRefunds, markRefundDispatched } from "../../../db/registrations/refunds.ts";
import { sql } from "../../../db/sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { refundOneTree, seizeLease } from "./dispatching.ts";

// Serial, because a database has one lease.
const test = testWithDatabase();

/** Returns the id of a refund that is not dispatched. */
const waitingRefund = async (db: DatabasePool): Promise<string> => {
  await refundOneTree(db);
  const [newest] = (await listWaitingRefunds(db, 1000)).slice(-1);
  if (newest === undefined) {
    throw new Error("No refund is waiting.");
  }
  return newest.id;
};

test.serial(
  "a refund that was marked after the loss of the lease is dispatched again",
  async (t) => {
    const { db } = t.context;
    const id = await waitingRefund(db);
    const lost = await seizeLease(db);
    const held = await seizeLease(db);
    const isWaiting = async (): Promise<boolean> =>
      (await listWaitingRefunds(db, 1000)).some((refund) => refund.id === id);

    await markRefundDispatched(db, id, new Date(), lost);
    t.true(await isWaiting());
    t.false(await renewDispatcherLease(db, lost, 60_000));
    t.false(await recordDispatcherPass(db, lost));
    await releaseDispatcherLease(db, lost);
    t.true((await readDispatcherStatus(db)).isHeld);

    await markRefundDispatched(db, id, new Date(), held);
    t.false(await isWaiting());
  },
);

test.serial(
  "a lease cannot be acquired before the statement of its holder has ended",
  async (t) => {
    const { db } = t.context;
    const id = await waitingRefund(db);
    const held = await seizeLease(db);
    await db.query(sql.typeAlias("void")`UPDATE dispatcher_lease SET expires_at = now()`);
    const [marked, mayCommit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const marking = db.transaction(async (transaction) => {
      await markRefundDispatched(transaction, id, new Date(), held);
      marked.resolve();
      await mayCommit.promise;
    });
    await marked.promise;

    let isAcquired = false;
    const acquire = async (): Promise<string | undefined> => {
      const lease = await acquireDispatcherLease(db, { holder: "next", durationMs: 60_000 });
      isAcquired = true;
      return lease?.holder;
    };
    const acquiring = acquire();
    await eventually(() =>
      db.exists(sql.typeAlias("void")`
      SELECT FROM pg_stat_activity
      WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
    `),
    );
    t.false(isAcquired);
    mayCommit.resolve();
    await marking;
    t.is(await acquiring, "next");
  },
);

test.serial("of many processes, one acquires the lease", async (t) => {
  const { db } = t.context;
  await releaseDispatcherLease(db, await seizeLease(db));
  const leases = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      acquireDispatcherLease(db, { holder: `worker ${index}`, durationMs: 60_000 }),
    ),
  );
  const [lease, ...others] = leases.filter((each) => each !== null);
  t.deepEqual(others, []);
  t.is((await readDispatcherStatus(db)).holder, lease?.holder ?? null);
});

test.serial("a lease from before PostgreSQL's clock was set back does not last", async (t) => {
  const { db } = t.context;
  await seizeLease(db);
  const acquire = () => acquireDispatcherLease(db, { holder: "next", durationMs: 10_000 });
  await db.query(sql.typeAlias("void")`
    UPDATE dispatcher_lease SET expires_at = now() + interval '15 seconds'
  `);
  t.is(await acquire(), null);
  await db.query(sql.typeAlias("void")`
    UPDATE dispatcher_lease SET expires_at = now() + interval '1 hour'
  `);
  const lease = await acquire();
  t.is(lease?.holder, "next");
});

test.serial("a number that is assigned again after a failover is another lease", async (t) => {
  const { db } = t.context;
  const lost = await seizeLease(db);
  // The promoted standby had not received the leader's acquisition.
  await db.query(sql.typeAlias("void")`
    UPDATE dispatcher_lease SET fencing_number = fencing_number - 1, holder = NULL, expires_at = NULL
  `);
  const lease = await acquireDispatcherLease(db, { holder: "next", durationMs: 60_000 });
  t.is(lease?.fencingNumber, lost.fencingNumber);
  t.false(await renewDispatcherLease(db, lost, 60_000));
});
