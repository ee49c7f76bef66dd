import { ApplicationFailure } from "@temporalio/common";
import type { ExecutionContext } from "ava";
import { pino } from "pino";
import type { DatabasePool } from "slonik";
import { createBillingActivities } from "../../../activities/createBillingActivities.ts";
import { createShardActivities } from "../../../activities/createShardActivities.ts";
import { createReportingRuns } from "../../../modules/billing/sending/createReportingRuns.ts";
import { sumLedgerUsage } from "../../../modules/billing/ledgerUsage.sql.ts";
import { beginAttempts, recordDelays } from "../../../modules/billing/sending/attempts.sql.ts";
import {
  readDispatcherStatus,
  releaseDispatcherLease,
  acquireDispatcherLease,
  recordDispatcherPass,
  renewDispatcherLease,
} from "../../../modules/billing/sending/dispatcherLease.sql.ts";
import { listShardStatuses } from "../../../db/shards.sql.ts";
import { openPool } from "../../../db/pools/pool.ts";
import { markRefundsDispatched } from "../../../modules/registrations/refunds.sql.ts";
import { sql } from "../../../db/sql.ts";
import { SHARDS } from "../../../db/shards.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { findSender } from "../../../worker/senders.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import type { Billing } from "../../../modules/billing/createBilling.ts";
import { getDeploymentName } from "../../../modules/billing/deploymentName.ts";
import { sealMeterEvent } from "../../../modules/billing/sending/sealMeterEvents.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import {
  backgroundQueue,
  usageSenderWorkflowId,
  usageShardWorkflowId,
} from "../../../runtime/temporalNames.rules.ts";
import { usageSender } from "../../../workflows/usageSender.ts";
import { usageShard } from "../../../workflows/shards.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { eventually, openNamespace } from "../../support/programs.ts";
import { startRelay } from "../../support/relay.ts";
import { listAllWaitingRefunds } from "../../support/listAllWaitingRefunds.ts";
import { startWorker } from "../../workflows/startWorker.ts";
import { isStarted, refundOneTree, SEIZED_MS, seizeLease, startDispatcher } from "./dispatching.ts";

// Serial, because a database has one lease, so only one of its dispatchers leads.
const test = testWithDatabase();

test.serial("a leader that loses the database gives up, and another takes over", async (t) => {
  const { client: temporal } = await openNamespace(t);
  const relay = await startRelay(t, t.context.databaseUrl);
  const relayed = await openPool(relay.url, 2, 60_000, { responseTimeoutMs: 500 });
  t.teardown(() => relayed.end());
  const leader = await startDispatcher(t, { db: relayed, temporal, leaseMs: 4000 });
  const first = await refundOneTree(t.context.db);
  await eventually(() => isStarted(temporal, first.refund));

  relay.freeze();
  await startDispatcher(t, { db: t.context.db, temporal, leaseMs: 4000 });
  const second = await refundOneTree(t.context.db);

  await leader.stop();
  await eventually(() => isStarted(temporal, second.refund));
  await eventually(() => isStarted(temporal, second.sender));
  t.pass();
});

test.serial("a leader whose lease was lost stops, and leads again when it is free", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const leaderships: boolean[] = [];
  await startDispatcher(t, {
    db,
    temporal,
    leaseMs: SEIZED_MS,
    observeLeadership: (isLeader) => leaderships.push(isLeader),
  });
  await eventually(() => leaderships.length === 1);

  const other = await seizeLease(db);
  await eventually(() => leaderships.length === 2);
  t.like(await readDispatcherStatus(db), { holder: "other", isHeld: true });

  await releaseDispatcherLease(db, other);
  await eventually(() => leaderships.length === 3);
  t.deepEqual(leaderships, [true, false, true]);
});

test.serial(
  "one line is logged when no worker dispatches, and one when a worker does again",
  async (t) => {
    const { db } = t.context;
    const { client: temporal } = await openNamespace(t);
    const lines: { readonly level: number; readonly msg: string; readonly holder: unknown }[] = [];
    const other = await seizeLease(db);
    await startDispatcher(t, {
      db,
      temporal,
      leaseMs: SEIZED_MS,
      toleratedSilenceMs: 1000,
      // The test parses what the dispatcher has logged.
      logger: pino({ level: "info" }, { write: (line) => lines.push(JSON.parse(line)) }),
    });

    await eventually(() => lines.length > 0);
    t.like(lines[0], {
      level: 50,
      holder: "other",
      msg: "no worker dispatches; usage, refunds and events wait in the database",
    });
    await releaseDispatcherLease(db, other);
    await eventually(() => lines.length > 1);
    t.like(lines[1], { level: 30, msg: "a worker dispatches again" });
    t.is(lines.length, 2);
  },
);

const startsDespiteFailure = test.macro({
  exec: async (
    t: ExecutionContext<DatabaseContext>,
    kind: "refund" | "sender",
    broken: "shard" | "refund",
  ) => {
    const { db, owner } = t.context;
    const { client: temporal } = await openNamespace(t);
    const started = await refundOneTree(db);
    const rename = async (from: string, to: string): Promise<void> => {
      await owner.query(sql.typeAlias("void")`
        ALTER TABLE ${sql.identifier([from])} RENAME TO ${sql.identifier([to])}
      `);
    };
    await rename(broken, "out_of_reach");
    t.teardown(() => rename("out_of_reach", broken));
    await startDispatcher(t, { db, temporal });

    await eventually(() => isStarted(temporal, started[kind]));

    t.false(await isStarted(temporal, started[kind === "refund" ? "sender" : "refund"]));
  },
  title: (title = "") => title,
});

test.serial(
  "refunds are started while senders cannot be woken",
  startsDespiteFailure,
  "refund",
  "shard",
);
test.serial(
  "senders are woken while refunds cannot be started",
  startsDespiteFailure,
  "sender",
  "refund",
);

/** Registers a tree whose event has failed so often that it needs a sender of its own. Returns that sender's id. */
const registerTroubledTree = async (db: DatabasePool, billing: Billing) => {
  const { id: accountId } = await createTestOrganization(db);
  const stream = { accountId, mode: "test", kind: "tree" } as const;
  const past: Clock = { now: () => new Date(systemClock.now().getTime() - 60_000) };
  await createRegistrationWriter({ db, clock: past }).register(
    registrationOf(accountId, { mode: "test", count: 1 }),
  );
  const sealing = await sealMeterEvent({ db, clock: systemClock, billing }, stream);
  const { id } = sealing.kind === "event" ? sealing.event : { id: 0n };
  const now = systemClock.now();
  const until = new Date(now.getTime() + 15_000);
  const [attempt] = await beginAttempts(db, [id], { now, until });
  await recordDelays(db, [
    {
      id,
      attempts: attempt?.attempts ?? 0,
      reason: "it failed",
      outcomeUnknown: false,
      newKey: false,
      inDoubtSince: null,
      retryAt: now,
      hasOwnSender: true,
    },
  ]);
  const deployment = await getDeploymentName({ db, clock: systemClock });
  return { deployment, stream, workflowId: usageSenderWorkflowId(deployment, stream) };
};

const observers = {
  observeSend: () => undefined,
  observeRejection: () => undefined,
  observeFailedEvent: () => undefined,
  observeUnreadSubscription: () => undefined,
  observeDrift: () => undefined,
};

/** Starts a worker that runs the senders of shards and of streams in trouble. */
const startSenders = async (t: ExecutionContext<DatabaseContext>, deployment: string) => {
  const { db } = t.context;
  const deps = { db, clock: systemClock, billing: createBilling({ db, stripe: null }) };
  const stopping = new AbortController();
  const temporal = await startWorker(
    t,
    {
      ...createBillingActivities({ ...deps, ...observers }),
      ...createShardActivities({
        runs: createReportingRuns(deps, { onResult: () => undefined, onFailure: () => undefined }),
        stopping: stopping.signal,
      }),
    },
    backgroundQueue(deployment),
  );
  t.teardown(() => stopping.abort());
  return temporal;
};

test.serial("a sender that makes no progress however often it is woken is restarted", async (t) => {
  const { db } = t.context;
  const billing = createBilling({ db, stripe: null });
  const { deployment, stream, workflowId } = await registerTroubledTree(db, billing);
  const temporal = await startSenders(t, deployment);
  const stuck = await temporal.workflow.start(usageSender, {
    workflowId,
    taskQueue: "without-workers",
    args: [stream],
  });

  await startDispatcher(t, { db, temporal, wakesUntilStuck: 2 });

  await eventually(
    async () => (await sumLedgerUsage(db, stream, { start: 0, end: 4_000_000_000 })) === 1,
  );
  const first = temporal.workflow.getHandle(workflowId, stuck.firstExecutionRunId);
  t.is((await first.describe()).status.name, "TERMINATED");
});

test.serial("the sender of a shard that never looks for usage is restarted", async (t) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`DELETE FROM shard`);
  const deployment = await getDeploymentName({ db, clock: systemClock });
  const temporal = await startSenders(t, deployment);
  const workflowId = usageShardWorkflowId(deployment, 2);
  const stuck = await temporal.workflow.start(usageShard, {
    workflowId,
    taskQueue: "without-workers",
    args: [2],
  });

  await startDispatcher(t, { db, temporal, wakesUntilStuck: 2 });
  // The worker of an earlier test can record a pass a second after its end. Then the shard is silent ten seconds later.
  const first = temporal.workflow.getHandle(workflowId, stuck.firstExecutionRunId);
  await eventually(async () => (await first.describe()).status.name === "TERMINATED");
  await db.query(sql.typeAlias("void")`DELETE FROM shard`);
  await eventually(async () => (await listShardStatuses(db, "usage")).length === SHARDS);
  t.pass();
});

test.serial("a sender that waits for its next attempt is not restarted", async (t) => {
  const { db } = t.context;
  const temporal = await startWorker(t, {
    drainUsage: () => {
      throw ApplicationFailure.create({ message: "later", nextRetryDelay: "10 minutes" });
    },
  });
  const billing = createBilling({ db, stripe: null });
  const { stream, workflowId } = await registerTroubledTree(db, billing);
  const { firstExecutionRunId } = await temporal.workflow.start(usageSender, {
    workflowId,
    taskQueue: "test",
    args: [stream],
  });
  const current = temporal.workflow.getHandle(workflowId);
  const isDelayed = async (): Promise<boolean> =>
    (await findSender(temporal, workflowId, new Date()))?.state === "delayed";
  await eventually(isDelayed);

  await startDispatcher(t, { db, temporal, wakesUntilStuck: 1 });

  await eventually(async () => {
    const { events } = await current.fetchHistory();
    const signals = events?.filter((event) => event.workflowExecutionSignaledEventAttributes);
    return (signals?.length ?? 0) >= 3;
  });
  t.is((await current.describe()).runId, firstExecutionRunId);
  t.true(await isDelayed());
});

/** Returns the ids of a registration's refunds that are not dispatched. */
const waitingRefunds = async (db: DatabasePool): Promise<readonly string[]> => {
  await refundOneTree(db);
  const [newest] = (await listAllWaitingRefunds(db)).slice(-1);
  if (newest === undefined) {
    throw new Error("No refund is waiting.");
  }
  return newest.ids;
};

test.serial("a refund that was marked after the lease was lost is dispatched again", async (t) => {
  const { db } = t.context;
  const ids = await waitingRefunds(db);
  const lost = await seizeLease(db);
  const held = await seizeLease(db);
  const isWaiting = async (): Promise<boolean> =>
    (await listAllWaitingRefunds(db)).some((waiting) => waiting.ids[0] === ids[0]);

  await markRefundsDispatched(db, ids, new Date(), lost);
  t.true(await isWaiting());
  t.false(await renewDispatcherLease(db, lost, 60_000));
  t.false(await recordDispatcherPass(db, lost));
  await releaseDispatcherLease(db, lost);
  t.true((await readDispatcherStatus(db)).isHeld);

  await markRefundsDispatched(db, ids, new Date(), held);
  t.false(await isWaiting());
});

test.serial("a lease cannot be acquired before its holder's statement has ended", async (t) => {
  const { db } = t.context;
  const ids = await waitingRefunds(db);
  const held = await seizeLease(db);
  await db.query(sql.typeAlias("void")`UPDATE dispatcher_lease SET expires_at = now()`);
  const [marked, mayCommit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const marking = db.transaction(async (transaction) => {
    await markRefundsDispatched(transaction, ids, new Date(), held);
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
});

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
