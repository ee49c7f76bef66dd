import { writeFile } from "node:fs/promises";
import { openDatabase } from "../db/openDatabase.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { createOrganization } from "../modules/accounts/manageOrganizations.ts";
import type { FirstKeys } from "../modules/accounts/manageKeys.ts";
import { systemClock } from "../runtime/clock.ts";
import { readConfig } from "../runtime/config/config.ts";
import { fillDemo } from "./demo/fillDemo.ts";

/*
 * Creates a demo organization in a new database, or fills it with a year of demo data, and prints the keys. It is a separate
 * program, because its imports would take 40 MB of memory as long as `npm start` runs.
 */

const CONNECTIONS = 4;
/** The demo makes thousands of commits one after the other. One that is interrupted is not used. */
const WITHOUT_FLUSHES = "?options=-c%20synchronous_commit%3Doff";

/** The production key is printed only where a person sees it, and no file or log gets it. */
const describeKeys = ({ apiKeyProd, apiKeyTest }: FirstKeys): string =>
  `  production key  ${process.stdout.isTTY ? apiKeyProd : "printed only on a terminal"}
  test key        ${apiKeyTest}
`;

const [apiUrl = "", demoFile] = process.argv.slice(2);
const { DATABASE_URL = "", CELL } = readConfig();
const db = await openDatabase({
  DATABASE_URL: DATABASE_URL + (demoFile === undefined ? "" : WITHOUT_FLUSHES),
  DATABASE_POOL_SIZE: CONNECTIONS,
  CELL,
});
if (demoFile === undefined) {
  const context = { db, clock: systemClock, actor: SERVICE };
  const organization = await createOrganization(context, { name: "Demo organization" });
  console.log(`This is the first start, so a demo organization was created (${organization.id}).
Save these keys now; they cannot be shown again.
${describeKeys(organization)}Register a first tree with the test key:
  curl -sS -X POST ${apiUrl}/plant/trees -H 'Authorization: ${organization.apiKeyTest}' -H 'Content-Type: application/json' -d '{"count": 1}'
`);
} else {
  console.error("Adding a year of demo data …");
  const demo = await fillDemo(db, systemClock.now());
  const { organizationId, storeId, shop, pages, organizationKeys, storeKeys } = demo;
  const testKeys = { organization: organizationKeys.apiKeyTest, store: storeKeys.apiKeyTest };
  await writeFile(demoFile, JSON.stringify({ organizationId, shop, pages, testKeys }), {
    mode: 0o600,
  });
  console.log(`A year of demo data was added. All planting is simulated, and nothing is billed.
Save these keys now; they cannot be shown again.
Organization ${organizationId}
${describeKeys(organizationKeys)}Store ${shop.domain} (${storeId})
${describeKeys(storeKeys)}`);
}
await db.end();
