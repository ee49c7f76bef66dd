import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { lockTable } from "../support/lockWaits.ts";
import { eventually, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test("blocked searches fail, and delay neither registrations nor later searches", async (t) => {
  const { db, databaseUrl } = t.context;
  const { apiKeyTest: key } = await createTestOrganization(db);
  const { urls } = await startProgram(t, "api/main.ts", {
    DATABASE_URL: databaseUrl,
    DATABASE_POOL_SIZE: "2",
    // The blocked searches are logged as errors.
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
  const lock = await lockTable(t, databaseUrl, "charity");

  let searchesDone = 0;
  const searches = Promise.all(
    Array.from({ length: 15 }, () =>
      search().finally(() => {
        searchesDone += 1;
      }),
    ),
  );
  await eventually(async () => (await lock.countWaiting()) > 0);
  const registered = await call("/plant/trees", { count: 1 });

  t.is(registered.status, 200);
  t.is(searchesDone, 0, "the registration did not wait for the searches to time out");
  const responses = await searches;
  const failed = responses.filter(({ status }) => status === 500);
  const rejected = responses.filter(({ status }) => status === 503);
  // An account never has the last of the three connections. Its other searches were waiting for these two.
  t.true(failed.length >= 2);
  t.true(rejected.length > 0);
  t.is(failed.length + rejected.length, 15);
  t.deepEqual(failed[0]?.body, { error: "charity search failed" });
  t.deepEqual(rejected[0]?.body, {
    error: "too many requests are waiting, try again",
  });
  await lock.release();
  t.like(await search(), { status: 200 });
});
