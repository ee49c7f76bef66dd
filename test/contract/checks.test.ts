import { createTestStore } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startProgram } from "../support/programs.ts";
import { STANDALONE_CHECKS, STORE_CHECKS } from "./checks/allChecks.ts";
import { createService } from "./client.ts";
import type { Service } from "./client.ts";
import { runCheck } from "./check.ts";

/* The checks of both interfaces against the API program, which runs until the last of them ends. */

const test = testWithDatabase();

const USER_ID = "user-1";
const stops: (() => unknown)[] = [];
let service: Service;

test.serial.before(async ({ context: { db, databaseUrl } }) => {
  const organization = await createTestOrganization(db);
  const other = await createTestOrganization(db);
  const unsubscribed = await createTestOrganization(db);
  const store = await createTestStore(db, { balanceCents: 500, userId: USER_ID });
  const otherStore = await createTestStore(db);
  const { urls } = await startProgram({ teardown: (stop) => stops.push(stop) }, "api/main.ts", {
    DATABASE_URL: databaseUrl,
  });
  service = createService({
    standalone: urls["standalone"],
    store: urls["store"],
    settings: {
      IMPACT_TEST_KEY: organization.apiKeyTest,
      IMPACT_PROD_KEY: organization.apiKeyProd,
      IMPACT_OTHER_TEST_KEY: other.apiKeyTest,
      IMPACT_UNSUBSCRIBED_PROD_KEY: unsubscribed.apiKeyProd,
      STORE_SHOP: store.domain,
      STORE_USER_ID: USER_ID,
      STORE_TEST_KEY: store.test["api_key"],
      STORE_PROD_KEY: store.live["api_key"],
      STORE_OTHER_SHOP: otherStore.domain,
      STORE_OTHER_TEST_KEY: otherStore.test["api_key"],
    },
  });
});

test.serial.after.always(async () => {
  for (const stop of stops) {
    await stop();
  }
});

// Serial, because checks compare totals of the account before and after a request.
for (const [side, checks] of [
  ["standalone", STANDALONE_CHECKS],
  ["store", STORE_CHECKS],
] as const) {
  for (const check of checks) {
    test.serial(`${side}: ${check.section}: ${check.name}`, async (t) => {
      t.deepEqual(await runCheck(service, check), { result: "ok" });
    });
  }
}
