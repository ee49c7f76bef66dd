import { z } from "zod";
import { updateAccount } from "../../modules/accounts/accounts.sql.ts";
import type { DatabaseTest } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, freshEin } from "../support/factories.ts";
import { lockTable } from "../support/lockWaits.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { addEveryOrgCharity } from "./donations/donationSetup.ts";
import { startProviderDouble } from "./startProviderDouble.ts";

const test = testWithDatabase().serial;

const responseBody = z.looseObject({ total_donations: z.number().optional() });

const startApi = async (
  t: DatabaseTest,
  key: string,
  settings: Readonly<Record<string, string>>,
) => {
  const { urls } = await startProgram(t, "api/main.ts", settings);
  return async (path: string, body?: object) => {
    const response = await fetch(`${urls["standalone"]}${path}`, {
      headers: { authorization: key, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
    return { status: response.status, body: responseBody.parse(await response.json()) };
  };
};

test("the worker validates a remote provider's charity for the API", async (t) => {
  const { db, databaseUrl } = t.context;
  const provider = await startProviderDouble(t);
  const { namespace } = await openNamespace(t);
  const { id, apiKeyTest: key } = await createTestOrganization(db);
  await updateAccount(db, id, { charityProvider: "everyorg" });
  const ein = freshEin();
  addEveryOrgCharity(provider, "remote", ein);
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_NAMESPACE: namespace,
    EVERYORG_API_KEY: "key",
    CHARITY_API_BASE: provider.url,
    // Donations fail while the worker starts.
    LOG_LEVEL: "silent",
  };
  const [call] = await Promise.all([
    startApi(t, key, settings),
    startProgram(t, "worker/main.ts", settings),
  ]);

  const donate = () => call("/charities/donate", { amount_cents: 250, ein, idempotency_key: "k" });
  // The worker bundles its workflows first. A 500 has recorded nothing and may be repeated.
  let recorded = await donate();
  while (recorded.status === 500) {
    recorded = await donate();
  }

  t.like(recorded, { status: 200, body: { charity_name: "The remote", total_donations: 1 } });
});

test("blocked searches fail, and delay neither registrations nor later searches", async (t) => {
  const { db, databaseUrl } = t.context;
  const { apiKeyTest: key } = await createTestOrganization(db);
  const call = await startApi(t, key, {
    DATABASE_URL: databaseUrl,
    DATABASE_POOL_SIZE: "2",
    // The blocked searches are logged as errors.
    LOG_LEVEL: "silent",
  });
  const search = () => call("/charities/search?name=red%20cross");
  t.like(await search(), { status: 200 });
  const lock = await lockTable(t, databaseUrl, "charity");

  let searchesDone = 0;
  const searches = Promise.all(
    Array.from({ length: 3 }, () =>
      search().finally(() => {
        searchesDone += 1;
      }),
    ),
  );
  await eventually(async () => (await lock.countWaiting()) > 0);
  const registered = await call("/plant/trees", { count: 1 });

  t.is(registered.status, 200);
  t.is(searchesDone, 0, "the registration did not wait for the searches to time out");
  // An account never has the last of the three connections for reads. Its third search was waiting for these two.
  for (const response of await searches) {
    t.like(response, { status: 500, body: { error: "charity search failed" } });
  }
  await lock.release();
  t.like(await search(), { status: 200 });
});
