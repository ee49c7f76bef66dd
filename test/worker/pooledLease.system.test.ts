import { openTestPool, testWithDatabase } from "../support/database.ts";
import { eventually, openNamespace } from "../support/programs.ts";
import { startPgBouncer } from "../support/startPgBouncer.ts";
import { startRelay } from "../support/relay.ts";
import { isStarted, refundOneTree, startDispatcher } from "./dispatcher/dispatching.ts";

const test = testWithDatabase();

test("behind a pooler, the lease of a leader that was killed expires", async (t) => {
  const { db, databaseUrl } = t.context;
  const { client: temporal } = await openNamespace(t);
  const pooler = await startPgBouncer(t, databaseUrl);
  const relay = await startRelay(t, pooler.url);
  const pooled = await openTestPool(t, relay.url, 2);
  const leader = await startDispatcher(t, { db: pooled, temporal, leaseMs: 4000 });
  const first = await refundOneTree(db);
  await eventually(() => isStarted(temporal, first.refund));

  relay.cut();
  await leader.stop();
  await startDispatcher(t, { db, temporal, leaseMs: 4000 });
  const second = await refundOneTree(db);

  await eventually(() => isStarted(temporal, second.refund));
  t.pass();
});
