import type { ExecutionContext } from "ava";
import { WorkflowNotFoundError } from "@temporalio/client";
import { ApplicationFailure } from "@temporalio/common";
import type { Client } from "@temporalio/client";
import { pino } from "pino";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import { releaseDispatcherLock, tryDispatcherLock } from "../../db/billing/dispatcherLock.ts";
import { sumLedgerUsage } from "../../db/billing/ledgerUsage.ts";
import { openPool } from "../../db/pool.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../domain/clock.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { refundRegistration } from "../../services/registrations/refundRegistration.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { createBillingActivities } from "../../activities/createBillingActivities.ts";
import { findSender } from "../../program/usageSenders.ts";
import { usageSender, usageSenderWorkflowId } from "../../workflows/usageSender.ts";
import { runDispatcher } from "../../worker/runDispatcher.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { eventually, openNamespace } from "../support/programs.ts";
import { startWorker } from "../workflows/startWorker.ts";
import { startRelay } from "../support/relay.ts";

// Serial, because only one dispatcher of a database leads.
const test = testWithDatabase();

/** Runs a dispatcher, without workers for what it starts, until `stop` or the end of the test. */
const startDispatcher = (
  t: ExecutionContext,
  {
    db,
    temporal,
    leaderIdleTimeoutMs,
    wakesUntilStuck,
  }: {
    db: DatabasePool;
    temporal: Client;
    leaderIdleTimeoutMs?: number;
    wakesUntilStuck?: number;
  },
): { readonly stop: () => Promise<void> } => {
  const shutdown = new AbortController();
  const running = runDispatcher(
    {
      db,
      clock: systemClock,
      temporal,
      taskQueue: "test",
      logger: pino({ enabled: false }),
      ...(leaderIdleTimeoutMs === undefined ? {} : { leaderIdleTimeoutMs }),
      ...(wakesUntilStuck === undefined ? {} : { wakesUntilStuck }),
    },
    shutdown.signal,
  );
  const stop = (): Promise<void> => {
    shutdown.abort();
    return running;
  };
  t.teardown(stop);
  return { stop };
};

/** Registers trees and refunds one. Returns the ids of the workflows that this requires. */
const refundOneTree = async (
  db: DatabasePool,
): Promise<{ readonly refund: string; readonly sender: string }> => {
  const { id: accountId } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const tree = { accountId, mode: "test", kind: "tree" } as const;
  const { registration } = await writer.register({
    ...tree,
    count: 2,
    fractionalCount: 0,
    idempotencyKey: null,
    attribution: "",
    metadata: {},
  });
  const billing = createBilling({ db, stripe: null });
  const { refundId } = await refundRegistration({ db, clock: systemClock, billing }, tree, {
    id: registration.id,
    count: 1,
    reason: null,
    idempotencyKey: null,
  });
  return {
    refund: refundId,
    sender: `usage-sender/${accountId}/test/tree`,
  };
};

const isStarted = async (temporal: Client, workflowId: string): Promise<boolean> => {
  try {
    await temporal.workflow.getHandle(workflowId).describe();
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return false;
    }
    throw error;
  }
};

test.serial(
  "when the leader loses the database, it gives up and another dispatcher takes over",
  async (t) => {
    const { client: temporal } = await openNamespace(t);
    const relay = await startRelay(t, t.context.databaseUrl);
    const relayed = await openPool(relay.url, 2, 60_000, { responseTimeoutMs: 500 });
    t.teardown(() => relayed.end());
    const leader = startDispatcher(t, { db: relayed, temporal, leaderIdleTimeoutMs: 4000 });
    const first = await refundOneTree(t.context.db);
    await eventually(() => isStarted(temporal, first.refund));

    relay.freeze();
    startDispatcher(t, { db: t.context.db, temporal, leaderIdleTimeoutMs: 4000 });
    const second = await refundOneTree(t.context.db);

    await leader.stop();
    await eventually(() => isStarted(temporal, second.refund));
    await eventually(() => isStarted(temporal, second.sender));
    t.pass();
  },
);

const readIdleTimeout = (connection: CommonQueryMethods): Promise<string> =>
  connection.oneFirst(
    sql.type(z.strictObject({ idle_session_timeout: z.string() }))`SHOW idle_session_timeout`,
  );

test.serial("a connection that released the lock may be idle again", async (t) => {
  await t.context.db.connect(async (connection) => {
    t.true(await tryDispatcherLock(connection, 120_000));
    t.is(await readIdleTimeout(connection), "2min");
    await releaseDispatcherLock(connection);
    t.is(await readIdleTimeout(connection), "0");
  });
});

const startsDespiteFailure = test.macro({
  exec: async (
    t: ExecutionContext<DatabaseContext>,
    kind: "refund" | "sender",
    broken: "meter_event" | "refund",
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
    const { stop } = startDispatcher(t, { db, temporal });

    await eventually(() => isStarted(temporal, started[kind]));

    t.false(await isStarted(temporal, started[kind === "refund" ? "sender" : "refund"]));
    await stop();
    await rename("out_of_reach", broken);
  },
  title: (title = "") => title,
});

test.serial(
  "refunds are started while senders cannot be woken",
  startsDespiteFailure,
  "refund",
  "meter_event",
);
test.serial(
  "senders are woken while refunds cannot be started",
  startsDespiteFailure,
  "sender",
  "refund",
);

/** Registers a tree. Returns the id of the sender of its usage. */
const registerTree = async (db: DatabasePool) => {
  const { id: accountId } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  await writer.register(registrationOf(accountId, { mode: "test", count: 1 }));
  const stream = { accountId, mode: "test", meter: "tree" } as const;
  return { stream, workflowId: usageSenderWorkflowId(stream) };
};

test.serial("a sender that makes no progress however often it is woken is restarted", async (t) => {
  const { db } = t.context;
  const billing = createBilling({ db, stripe: null });
  const temporal = await startWorker(
    t,
    createBillingActivities({
      db,
      clock: systemClock,
      billing,
      observeSend: () => undefined,
      observeRejection: () => undefined,
      observeFailedEvent: () => undefined,
      observeUnreadSubscription: () => undefined,
      observeDrift: () => undefined,
    }),
  );
  const { stream, workflowId } = await registerTree(db);
  const stuck = await temporal.workflow.start(usageSender, {
    workflowId,
    taskQueue: "without-workers",
    args: [stream],
  });

  startDispatcher(t, { db, temporal, wakesUntilStuck: 2 });

  await eventually(
    async () => (await sumLedgerUsage(db, stream, { start: 0, end: 4_000_000_000 })) === 1,
  );
  const first = temporal.workflow.getHandle(workflowId, stuck.firstExecutionRunId);
  t.is((await first.describe()).status.name, "TERMINATED");
});

test.serial("a sender that waits for its next attempt is not restarted", async (t) => {
  const { db } = t.context;
  const temporal = await startWorker(t, {
    drainUsage: () => {
      throw ApplicationFailure.create({ message: "later", nextRetryDelay: "10 minutes" });
    },
  });
  const { stream, workflowId } = await registerTree(db);
  const { firstExecutionRunId } = await temporal.workflow.start(usageSender, {
    workflowId,
    taskQueue: "test",
    args: [stream],
  });
  const current = temporal.workflow.getHandle(workflowId);
  const isDelayed = async (): Promise<boolean> =>
    (await findSender(temporal, stream, new Date()))?.state === "delayed";
  await eventually(isDelayed);

  startDispatcher(t, { db, temporal, wakesUntilStuck: 1 });

  await eventually(async () => {
    const { events } = await current.fetchHistory();
    const signals = events?.filter((event) => event.workflowExecutionSignaledEventAttributes);
    return (signals?.length ?? 0) >= 3;
  });
  t.is((await current.describe()).runId, firstExecutionRunId);
  t.true(await isDelayed());
});
