import { createTestStore } from "../stores/startStoreApi.ts";
import { readJson, impactOf, runImpact } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";

const test = testWithDatabase();

const UNSET = { count_per_request: null, count_per_day: null };

test("an operator sets limits for one mode of an account, sees them and removes them", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { id } = await createTestOrganization(db);
  const run = async (...args: readonly string[]) => {
    const result = await impact(...args);
    t.is(result.exitCode, 0, result.stderr);
    return result;
  };
  const limitsShown = async () => readJson(await run("org", "show", id, "--json"));

  await run(
    ..."org update".split(" "),
    id,
    "--mode",
    "test",
    "--count-per-day",
    "9007199254740991",
  );
  t.like(await limitsShown(), {
    limits: [
      { mode: "live", ...UNSET },
      { mode: "test", ...UNSET, count_per_day: Number.MAX_SAFE_INTEGER },
    ],
  });
  t.regex(
    (await run("org", "show", id)).stdout,
    /live +none +none\ntest +none +9,007,199,254,740,991\n/u,
  );
  await run(..."org update".split(" "), id, "--mode", "test", "--count-per-day", "none");
  t.like(await limitsShown(), {
    limits: [
      { mode: "live", ...UNSET },
      { mode: "test", ...UNSET },
    ],
  });

  const store = await createTestStore(db);
  await run(..."store update".split(" "), store.domain, "--count-per-request", "3");
  t.like(readJson(await run("store", "show", store.domain, "--json")), {
    limits: [
      { mode: "live", ...UNSET, count_per_request: 3 },
      { mode: "test", ...UNSET },
    ],
  });
});

test("once a command that sets a limit returns, every process applies it to what the day has already", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  const [one, other] = [await startStandaloneApi(t, { db }), await startStandaloneApi(t, { db })];
  const plant = async ({ call }: typeof one, count: number) =>
    (await call("POST", "/plant/trees", { key, body: { count } })).status;
  t.deepEqual([await plant(one, 30), await plant(other, 40)], [200, 200]);

  const { exitCode } = await impact("org", "update", id, "--count-per-day", "100");

  t.is(exitCode, 0);
  t.deepEqual([await plant(one, 31), await plant(other, 31)], [403, 403]);
  t.deepEqual([await plant(one, 20), await plant(other, 10)], [200, 200]);
  t.deepEqual([await plant(one, 1), await plant(other, 1)], [403, 403]);
});

for (const value of ["0", "-1", "1.5", "many", "1e3", "9007199254740992"]) {
  test(`a limit of ${value} is refused`, async (t) => {
    const { id } = await createTestOrganization(t.context.db);
    const run = await runImpact(["org", "update", id, `--count-per-day=${value}`], {
      env: { DATABASE_URL: t.context.databaseUrl },
    });
    t.is(run.exitCode, 2);
    t.regex(run.stderr, /Must be a number from 1 to 9007199254740991, or none\./u);
  });
}
