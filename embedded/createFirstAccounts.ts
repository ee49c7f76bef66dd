import { openDatabase } from "../db/openDatabase.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { createOrganization } from "../modules/accounts/manageOrganizations.ts";
import type { FirstKeys } from "../modules/accounts/manageKeys.ts";
import { systemClock } from "../runtime/clock.ts";
import { fillDemo } from "./demo/fillDemo.ts";

const CONNECTIONS = 4;
/** The demo makes thousands of commits one after the other. One that is interrupted is not used. */
const WITHOUT_FLUSHES = "?options=-c%20synchronous_commit%3Doff";

/** The production key is printed only where a person sees it, and no file or log gets it. */
const describeKeys = ({ apiKeyProd, apiKeyTest }: FirstKeys): string =>
  `  production key  ${process.stdout.isTTY ? apiKeyProd : "printed only on a terminal"}
  test key        ${apiKeyTest}
`;

/**
 * Creates a demo organization in a new database, or fills it with a year of demo data.
 * @returns the keys in words, and what the pages of the demo show
 */
export const createFirstAccounts = async (
  databaseUrl: string,
  apiUrl: string,
  isDemo: boolean,
  cell: string | undefined,
): Promise<{ readonly keys: string; readonly made: object | null }> => {
  const db = await openDatabase({
    DATABASE_URL: databaseUrl + (isDemo ? WITHOUT_FLUSHES : ""),
    DATABASE_POOL_SIZE: CONNECTIONS,
    CELL: cell,
  });
  try {
    if (isDemo) {
      const demo = await fillDemo(db, systemClock.now());
      const { organizationId, storeId, shop, pages, organizationKeys, storeKeys } = demo;
      const keys = `A year of demo data was added. All planting is simulated, and nothing is billed.
Save these keys now; they cannot be shown again.
Organization ${organizationId}
${describeKeys(organizationKeys)}Store ${shop.domain} (${storeId})
${describeKeys(storeKeys)}`;
      const testKeys = { organization: organizationKeys.apiKeyTest, store: storeKeys.apiKeyTest };
      return { keys, made: { organizationId, shop, pages, testKeys } };
    }
    const organization = await createOrganization(
      { db, clock: systemClock, actor: SERVICE },
      {
        name: "Demo organization",
      },
    );
    const keys = `This is the first start, so a demo organization was created (${organization.id}).
Save these keys now; they cannot be shown again.
${describeKeys(organization)}Register a first tree with the test key:
  curl -sS -X POST ${apiUrl}/plant/trees -H 'Authorization: ${organization.apiKeyTest}' -H 'Content-Type: application/json' -d '{"count": 1}'
`;
    return { keys, made: null };
  } finally {
    await db.end();
  }
};
