import { runForAll, runForClient } from "../../runtime/client.ts";
import { sql } from "../../db/sql.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

test("the pool has a connection for the service while clients wait for theirs", async (t) => {
  const db = await openTestPool(t, t.context.databaseUrl, 3);
  const gate = Promise.withResolvers<null>();
  const held = Array.from({ length: 10 }, (_, index) =>
    runForClient(`account-${index}`, () => db.transaction(() => gate.promise)),
  );

  // Also if a client's request has caused it.
  const found = await runForClient("another", () =>
    runForAll(() => db.exists(sql.typeAlias("void")`SELECT FROM account`)),
  );

  t.is(typeof found, "boolean");
  // The connection of the service is returned a moment after its result.
  await eventually(() => db.state().acquiredConnections === 2);
  t.is(db.state().waitingClients, 8);
  gate.resolve(null);
  await Promise.all(held);
  t.is(db.state().waitingClients, 0);
});

test("a client with many queries leaves connections to another one", async (t) => {
  const db = await openTestPool(t, t.context.databaseUrl, 6);
  const gate = Promise.withResolvers<null>();
  const held = Array.from({ length: 10 }, () =>
    runForClient("busy", () => db.transaction(() => gate.promise)),
  );

  const found = await runForClient("other", () =>
    db.exists(sql.typeAlias("void")`SELECT FROM account`),
  );

  t.is(typeof found, "boolean");
  gate.resolve(null);
  await Promise.all(held);
});
