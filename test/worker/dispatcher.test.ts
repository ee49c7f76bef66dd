import type { Client } from "@temporalio/client";
import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { insertProcessorEvent } from "../../modules/billing/processorEvents/processorEvents.sql.ts";
import { openPool } from "../../db/pools/pool.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { pause } from "../../runtime/waiting.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually, openNamespace, readStatus } from "../support/programs.ts";
import { startRelay } from "../support/relay.ts";
import { listWaitingRefunds } from "../../modules/registrations/refunds.sql.ts";
import { createDispatcherRuns } from "../../worker/createDispatcherRuns.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { getDeploymentName } from "../../modules/billing/holdUsage.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { createTestOrganization, refundFor, registrationOf } from "../support/factories.ts";
import { refundWorkflowId } from "../../runtime/temporalNames.rules.ts";

// Serial, because a dispatcher serves everything that waits in the database of the file.
const test = testWithDatabase().serial;

/** Lists the refunds whose workflow has not been started yet. */
const listAllWaitingRefunds = (db: DatabasePool) => listWaitingRefunds(db, 1000);

/** Registers trees and refunds some, one by one. Returns the id of the refunds' workflow. */
const refundTrees = async (db: DatabasePool, refunds = 1): Promise<string> => {
  const { id: accountId } = await createTestOrganization(db);
  const context = { db, clock: systemClock, billing: createBilling({ db, stripe: null }) };
  const { registration } = await createRegistrationWriter(context).register(
    registrationOf(accountId, { mode: "test", count: 1 + refunds }),
  );
  const tree = { accountId, mode: "test", kind: "tree" } as const;
  for (let refund = 1; refund <= refunds; refund += 1) {
    await refundFor(context, tree, registration.id, 1);
  }
  return refundWorkflowId(await getDeploymentName(context), registration.id);
};

const RETRY_INTERVAL_MS = 100;

/** Runs a dispatcher, without workers for what it starts, until `stop` or the end of the test. */
const startDispatcher = async (
  t: ExecutionContext,
  { db, temporal }: { readonly db: DatabasePool; readonly temporal: Client },
): Promise<{ readonly stop: () => Promise<void>; readonly failed: Promise<unknown> }> => {
  // A worker decides the name before it starts a dispatcher.
  await getDeploymentName({ db, clock: systemClock });
  const runs = createDispatcherRuns({
    db,
    clock: systemClock,
    temporal,
    billing: createBilling({ db, stripe: null }),
    observeFailedEvent: () => t.fail(),
    observeDelayedEvent: () => undefined,
  });
  const shutdown = new AbortController();
  const failure = Promise.withResolvers<unknown>();
  const run = async (): Promise<void> => {
    while (!shutdown.signal.aborted) {
      // Temporal repeats an activity that fails.
      const signals = { stop: shutdown.signal, signal: shutdown.signal };
      await runs.run(signals).catch(async (error: unknown) => {
        failure.resolve(error);
        await pause(RETRY_INTERVAL_MS, shutdown.signal);
      });
    }
  };
  const running = run();
  const stop = async (): Promise<void> => {
    shutdown.abort();
    await running;
    await runs.end();
  };
  t.teardown(stop);
  return { stop, failed: failure.promise };
};

const isStarted = async (temporal: Client, workflowId: string): Promise<boolean> =>
  (await readStatus(temporal, workflowId)) !== null;

test("a dispatcher that loses the database fails, and another one goes on", async (t) => {
  const { client: temporal } = await openNamespace(t);
  const relay = await startRelay(t, t.context.databaseUrl);
  const relayed = await openPool(relay.url, 2, 60_000, { responseTimeoutMs: 500 });
  t.teardown(() => relayed.end());
  const lost = await startDispatcher(t, { db: relayed, temporal });
  const first = await refundTrees(t.context.db);
  await eventually(() => isStarted(temporal, first));

  relay.freeze();
  await startDispatcher(t, { db: t.context.db, temporal });
  const second = await refundTrees(t.context.db);

  t.true((await lost.failed) instanceof Error);
  await lost.stop();
  await eventually(() => isStarted(temporal, second));
});

test("dispatchers that overlap start one workflow of each refund", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const ids = await Promise.all(Array.from({ length: 20 }, () => refundTrees(db)));

  await startDispatcher(t, { db, temporal });
  await startDispatcher(t, { db, temporal });

  await eventually(async () => (await listAllWaitingRefunds(db)).length === 0);
  // Temporal's list is eventually consistent.
  const countListed = async () => (await temporal.workflow.count('WorkflowType = "refund"')).count;
  await eventually(async () => (await countListed()) > 0);
  for (const workflowId of ids) {
    t.true(await isStarted(temporal, workflowId));
  }
  await eventually(async () => (await countListed()) === ids.length);
});

for (const [title, broken] of [
  ["refunds are started while events of the processor cannot be read", "processor_event"],
  ["events of the processor are processed while refunds cannot be started", "refund"],
] as const) {
  test(title, async (t) => {
    const { db, owner } = t.context;
    const { client: temporal } = await openNamespace(t);
    const refund = await refundTrees(db);
    const id = `evt_${crypto.randomUUID()}`;
    const type = "customer.subscription.updated";
    await insertProcessorEvent(db, { id, type, objectId: "sub_unknown" }, systemClock.now());
    const rename = async (from: string, to: string): Promise<void> => {
      await owner.query(sql.typeAlias("void")`
        ALTER TABLE ${sql.identifier([from])} RENAME TO ${sql.identifier([to])}
      `);
    };
    const events = sql.identifier([broken === "refund" ? "processor_event" : "out_of_reach"]);
    const isProcessed = async (): Promise<boolean> =>
      !(await owner.exists(sql.typeAlias("void")`SELECT FROM ${events} WHERE id = ${id}`));
    const isRefundStarted = () => isStarted(temporal, refund);
    const [works, fails] =
      broken === "refund" ? [isProcessed, isRefundStarted] : [isRefundStarted, isProcessed];
    await rename(broken, "out_of_reach");
    t.teardown(() => rename("out_of_reach", broken));
    const dispatcher = await startDispatcher(t, { db, temporal });

    await eventually(works);

    t.true((await dispatcher.failed) instanceof Error);
    t.false(await fails());
    await dispatcher.stop();
  });
}

test("one signal is sent for all waiting refunds of a registration", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const workflowId = await refundTrees(db, 30);

  await startDispatcher(t, { db, temporal });

  await eventually(async () => (await listAllWaitingRefunds(db)).length === 0);
  const { events } = await temporal.workflow.getHandle(workflowId).fetchHistory();
  t.is(events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length, 1);
});

test("refunds that stay waiting do not keep others from being started", async (t) => {
  const { db, owner } = t.context;
  const { client: temporal } = await openNamespace(t);
  await refundTrees(db);
  // As many as a pass reads.
  await owner.query(sql.typeAlias("void")`
    INSERT INTO refund (id, registration_id, account_id, count, created_at, reason)
    SELECT gen_random_uuid(), registration_id, account_id, 1, created_at - number * interval '1 second', 'stays'
    FROM (SELECT * FROM refund ORDER BY created_at DESC LIMIT 1) AS refund
    CROSS JOIN generate_series(1, 500) AS number
  `);
  await owner.query(sql.typeAlias("void")`
    CREATE FUNCTION stay_waiting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$
  `);
  await owner.query(sql.typeAlias("void")`
    CREATE TRIGGER stay_waiting BEFORE UPDATE ON refund FOR EACH ROW
    WHEN (new.reason = 'stays') EXECUTE FUNCTION stay_waiting()
  `);
  const refund = await refundTrees(db);

  await startDispatcher(t, { db, temporal });

  await eventually(() => isStarted(temporal, refund));
  // It is marked only after its workflow has started.
  await eventually(async () => (await listAllWaitingRefunds(db)).length === 1);
  t.is((await listAllWaitingRefunds(db))[0]?.ids.length, 500);
});
