import { openTestPool, testWithDatabase } from "../support/database.ts";
import { eventually, openNamespace } from "../support/programs.ts";
import { startPgBouncer } from "../support/startPgBouncer.ts";
import { startRelay } from "../support/relay.ts";
import { isStarted, refundOneTree, startDispatcher } from "./dispatcher/dispatching.ts";

const test = testWithDatabase();

test("behind a pooler, a dispatcher that was killed holds nothing that another one waits for", async (t) => {
  const { db, databaseUrl } = t.context;
  const { client: temporal } = await openNamespace(t);
  const pooler = await startPgBouncer(t, databaseUrl);
  const relay = await startRelay(t, pooler.url);
  const pooled = await openTestPool(t, relay.url, 2);
  const killed = await startDispatcher(t, { db: pooled, temporal });
  const first = await refundOneTree(db);
  await eventually(() => isStarted(temporal, first));

  relay.cut();
  await killed.failed;
  await startDispatcher(t, { db, temporal });
  const second = await refundOneTree(db);

  await eventually(() => isStarted(temporal, second));
  t.pass();
});
