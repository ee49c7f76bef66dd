import type { ExecutionContext } from "ava";
import { z } from "zod";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { markRefundsDispatched } from "../../../modules/registrations/refunds.sql.ts";
import { openPool } from "../../../db/pools/pool.ts";
import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { eventually, openNamespace } from "../../support/programs.ts";
import { startRelay } from "../../support/relay.ts";
import { listAllWaitingRefunds } from "../../support/listAllWaitingRefunds.ts";
import { isStarted, refundOneTree, startDispatcher } from "./dispatching.ts";

// Serial, because a dispatcher serves everything that waits in the database of the file.
const test = testWithDatabase();

test.serial("a dispatcher that loses the database fails, and another one goes on", async (t) => {
  const { client: temporal } = await openNamespace(t);
  const relay = await startRelay(t, t.context.databaseUrl);
  const relayed = await openPool(relay.url, 2, 60_000, { responseTimeoutMs: 500 });
  t.teardown(() => relayed.end());
  const lost = await startDispatcher(t, { db: relayed, temporal });
  const first = await refundOneTree(t.context.db);
  await eventually(() => isStarted(temporal, first));

  relay.freeze();
  await startDispatcher(t, { db: t.context.db, temporal });
  const second = await refundOneTree(t.context.db);

  t.true((await lost.failed) instanceof Error);
  await lost.stop();
  await eventually(() => isStarted(temporal, second));
});

test.serial("dispatchers that overlap start one workflow of each refund", async (t) => {
  const { db } = t.context;
  const { client: temporal } = await openNamespace(t);
  const ids = await Promise.all(Array.from({ length: 20 }, () => refundOneTree(db)));

  await startDispatcher(t, { db, temporal });
  await startDispatcher(t, { db, temporal });

  await eventually(async () => (await listAllWaitingRefunds(db)).length === 0);
  // Temporal's list is eventually consistent.
  await eventually(
    async () => (await temporal.workflow.count('WorkflowType = "refund"')).count > 0,
  );
  for (const workflowId of ids) {
    t.true(await isStarted(temporal, workflowId));
  }
  await eventually(
    async () => (await temporal.workflow.count('WorkflowType = "refund"')).count === ids.length,
  );
});

const stateRow = z.strictObject({ state: z.string() });

const startsDespiteFailure = test.macro(
  async (t: ExecutionContext<DatabaseContext>, broken: "processor_event" | "refund") => {
    const { db, owner } = t.context;
    const { client: temporal } = await openNamespace(t);
    const refund = await refundOneTree(db);
    const id = `evt_${crypto.randomUUID()}`;
    const type = "customer.subscription.updated";
    const now = systemClock.now();
    await insertProcessorEvent(db, { id, type, objectId: "sub_unknown" }, now);
    const rename = async (from: string, to: string): Promise<void> => {
      await owner.query(sql.typeAlias("void")`
        ALTER TABLE ${sql.identifier([from])} RENAME TO ${sql.identifier([to])}
      `);
    };
    const isProcessed = async (table: string): Promise<boolean> =>
      (await owner.oneFirst(
        sql.type(stateRow)`SELECT state FROM ${sql.identifier([table])} WHERE id = ${id}`,
      )) === "processed";
    await rename(broken, "out_of_reach");
    t.teardown(() => rename("out_of_reach", broken));
    const dispatcher = await startDispatcher(t, { db, temporal });

    const [table, other] =
      broken === "refund" ? ["processor_event", "refund"] : ["out_of_reach", "processor_event"];
    await eventually(() =>
      broken === "refund" ? isProcessed(table) : isStarted(temporal, refund),
    );

    t.true((await dispatcher.failed) instanceof Error);
    t.false(other === "refund" ? await isStarted(temporal, refund) : await isProcessed(table));
    await dispatcher.stop();
  },
);

test.serial(
  "refunds are started while events of the processor cannot be read",
  startsDespiteFailure,
  "processor_event",
);
test.serial(
  "events of the processor are processed while refunds cannot be started",
  startsDespiteFailure,
  "refund",
);

test.serial(
  "a refund that an operator has dispatched again is not marked by a dispatcher that listed it before",
  async (t) => {
    const { db } = t.context;
    await refundOneTree(db);
    const listed = await listAllWaitingRefunds(db);
    await db.query(sql.typeAlias("void")`
      UPDATE refund SET dispatched_at = NULL WHERE dispatched_at IS NULL
    `);
    const mark = async (refunds: typeof listed): Promise<void> => {
      for (const each of refunds) {
        await markRefundsDispatched(db, each, new Date());
      }
    };

    await mark(listed);
    t.is((await listAllWaitingRefunds(db)).length, listed.length);

    await mark(await listAllWaitingRefunds(db));
    t.deepEqual(await listAllWaitingRefunds(db), []);
  },
);
