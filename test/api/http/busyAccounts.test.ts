import type { ExecutionContext } from "ava";
import { Client } from "pg";
import type { DatabaseContext } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { eventually } from "../../support/programs.ts";
import { startStandaloneApi } from "../startStandaloneApi.ts";

const test = testWithDatabase();

/** Starts an API for two organizations, and makes the registrations of the first one wait for a lock. */
const startWithLockedTotal = async (t: ExecutionContext<DatabaseContext>) => {
  const { db, databaseUrl } = t.context;
  const api = await startStandaloneApi(t, { db });
  const busy = await createTestOrganization(db);
  const other = await createTestOrganization(db);
  await api.call("POST", "/plant/trees", { key: busy.apiKeyProd, body: { count: 1 } });
  const locker = new Client({ connectionString: databaseUrl });
  await locker.connect();
  t.teardown(() => locker.end());
  await locker.query("BEGIN");
  await locker.query("SELECT FROM impact_total WHERE account_id = $1 FOR UPDATE", [busy.id]);
  return {
    ...api,
    busyKey: busy.apiKeyProd,
    otherKey: other.apiKeyProd,
    release: () => locker.query("COMMIT"),
  };
};

test("an account whose requests would take all places of a process leaves half of them to others", async (t) => {
  const { call, appRequests, busyKey, otherKey, release } = await startWithLockedTotal(t);
  const before = appRequests();

  const waiting = Promise.all(
    // As many as run at the same time in a process.
    Array.from({ length: 500 }, () =>
      call("POST", "/plant/trees", { key: busyKey, body: { count: 1 } }),
    ),
  );
  await eventually(() => appRequests() === before + 500);

  t.is((await call("GET", "/plant/trees", { key: otherKey })).status, 200);
  await release();
  const statuses = (await waiting).map(({ status }) => status);
  t.deepEqual(new Set(statuses), new Set([200]));
});

test("an account may record half of the batches of a process at the same time: others find places, and its further ones wait", async (t) => {
  const { call, busyKey, otherKey, release } = await startWithLockedTotal(t);
  const batch = { items: [{ count: 1 }] };

  const batches = Array.from({ length: 40 }, () =>
    call("POST", "/plant/trees/batch", { key: busyKey, body: batch }),
  );
  // It is read, although it cannot be recorded.
  const read = await call("POST", "/plant/trees/batch", { key: otherKey, body: { items: [] } });
  t.is(read.status, 400);
  await release();
  const statuses = (await Promise.all(batches)).map((response) => response.status);
  t.deepEqual(new Set(statuses), new Set([200]));
});
