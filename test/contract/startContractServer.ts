import type { TestFn } from "ava";
import { createTestStore } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startProgram } from "../support/programs.ts";
import type { Target } from "./client.ts";

const USER_ID = "user-1";

/** Declares tests of the API program, which runs until the file's last test ends and has the accounts of the checks. */
export const testWithContractServer = (): {
  readonly test: TestFn<DatabaseContext>;
  readonly target: () => Target;
} => {
  const test = testWithDatabase();
  const stops: (() => unknown)[] = [];
  let target: Target | undefined;

  test.serial.before(async ({ context: { db, databaseUrl } }) => {
    const organization = await createTestOrganization(db);
    const other = await createTestOrganization(db);
    const unsubscribed = await createTestOrganization(db);
    const store = await createTestStore(db, { balanceCents: 500, userId: USER_ID });
    const otherStore = await createTestStore(db);
    const { urls } = await startProgram({ teardown: (stop) => stops.push(stop) }, "api/main.ts", {
      DATABASE_URL: databaseUrl,
    });
    target = {
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
    };
  });

  test.serial.after.always(async () => {
    for (const stop of stops) {
      await stop();
    }
  });

  return {
    test,
    target: () => {
      if (target === undefined) {
        throw new Error("The server is started before the first test.");
      }
      return target;
    },
  };
};
