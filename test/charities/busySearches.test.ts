import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test("searches that get no further hold up no registrations, and nobody once they are given up", async (t) => {
  const { db, databaseUrl } = t.context;
  const { apiKeyTest: key } = await createTestOrganization(db);
  const { urls } = await startProgram(t, "api/main.ts", {
    DATABASE_URL: databaseUrl,
    DATABASE_POOL_SIZE: "2",
    // The searches fail, as told below.
    LOG_LEVEL: "silent",
  });
  const call = async (path: string, body?: object) => {
    const response = await fetch(`${urls["standalone"]}${path}`, {
      headers: { authorization: key, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  };
  const search = () => call("/charities/search?name=red%20cross");
  t.like(await search(), { status: 200 });
  const locker = new Client({ connectionString: databaseUrl });
  await locker.connect();
  t.teardown(() => locker.end());
  await locker.query("BEGIN; LOCK TABLE charity IN ACCESS EXCLUSIVE MODE");

  const searches = Promise.all(Array.from({ length: 15 }, search));
  await delay(500);
  const startedAtMs = performance.now();
  const planted = await call("/plant/trees", { count: 1 });
  const plantedWithinMs = performance.now() - startedAtMs;

  t.is(planted.status, 200);
  t.true(plantedWithinMs < 2000, `${plantedWithinMs} ms`);
  for (const refused of await searches) {
    t.deepEqual(refused, { status: 500, body: { error: "charity search failed" } });
  }
  await locker.query("ROLLBACK");
  t.like(await search(), { status: 200 });
});
