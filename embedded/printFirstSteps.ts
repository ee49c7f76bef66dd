import type { DemoData } from "./demo/demoData.ts";
import type { FilledDemo } from "./demo/fillDemo.ts";
import { DEMO_STORE } from "./demo/planDemo.ts";
import type { StartContext } from "./managedProcess.ts";
import { hasAccounts } from "../modules/accounts/accounts.sql.ts";
import { openPool } from "../db/pools/pool.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { systemClock } from "../runtime/clock.ts";
import { createOrganization } from "../modules/accounts/createOrganization.ts";
import {
  getCertificateToken,
  getOrderCertificateToken,
} from "../modules/dashboard/manageCertificates.ts";
import { getDashboardSlug } from "../modules/dashboard/getDashboardSlug.ts";

/** Returns lines that say where the demo data can be seen. */
const describeDemo = async (
  databaseUrl: string,
  { organizationId, storeId, storeOrder, records }: DemoData,
  publicUrl: string,
): Promise<readonly string[]> => {
  const db = await openPool(databaseUrl, 1);
  const context = { db, clock: systemClock };
  try {
    const slug = await getDashboardSlug(context, organizationId);
    const live = { mode: "live" } as const;
    const tokens: (readonly [string, string])[] = [];
    for (const { label, id } of records) {
      const owner = { ...live, accountId: organizationId };
      tokens.push([label, await getCertificateToken(context, owner, id, null)]);
    }
    const store = { ...live, accountId: storeId };
    tokens.push(["order", await getOrderCertificateToken(context, store, storeOrder)]);
    return [
      `organization    ${organizationId}`,
      `store           ${DEMO_STORE.domain} (${storeId})`,
      `public page     ${publicUrl}/dashboard/${slug}`,
      "certificates",
      ...tokens.map(([label, token]) => `  ${label.padEnd(14)}${publicUrl}/certificate/${token}`),
    ];
  } finally {
    await db.end();
  }
};

/**
 * Creates a demo organization in an empty database.
 * @returns null if there are accounts already
 */
const createDemoOrganization = async (
  databaseUrl: string,
): Promise<Awaited<ReturnType<typeof createOrganization>> | null> => {
  const db = await openPool(databaseUrl, 2);
  try {
    if (await hasAccounts(db)) {
      return null;
    }
    return await createOrganization(
      { db, clock: systemClock, actor: SERVICE },
      {
        name: "Demo organization",
        fractionalCounting: false,
        billingDay: 1,
        stripeCustomerId: null,
        stripeSubscriptionId: null,
      },
    );
  } finally {
    await db.end();
  }
};

export type Output = {
  /** Prints a line of the result, such as a URL or a key. */
  readonly print: (line: string) => void;
  /** Whether a person sees what is printed, and no file or log gets it. */
  readonly isTerminal: boolean;
  readonly onProgress: StartContext["onProgress"];
};

/** Returns a production key, or how to get one where it would reach a log. */
const showProductionKey = (key: string, account: string, { isTerminal }: Output): string =>
  isTerminal
    ? key
    : `printed only on a terminal; to issue another one: npm run -s impact -- key issue ${account} --mode live`;

const saveNow = ({ isTerminal }: Output): string =>
  isTerminal ? "Save these keys now; they cannot" : "Save this key now; it cannot";

/** Creates an organization in an empty database, and prints its keys and a request. */
export const printFirstRequest = async (
  databaseUrl: string,
  apiUrl: string,
  isOnStripe: boolean,
  output: Output,
): Promise<void> => {
  const organization = await createDemoOrganization(databaseUrl);
  if (organization === null) {
    return;
  }
  output.print(`
This is the first start, so a demo organization was created (${organization.id}).
${saveNow(output)} be shown again.
  production key  ${showProductionKey(organization.apiKeyProd, `--org ${organization.id}`, output)}
  test key        ${organization.apiKeyTest}${
    isOnStripe
      ? `\nTo bill usage of the production key, create a customer and a subscription in Stripe, then:\n  npm run -s impact -- org update ${organization.id} --stripe-customer cus_… --stripe-subscription sub_…`
      : ""
  }
Register a first tree with the test key:
  curl -sS -X POST ${apiUrl}/plant/trees -H 'Authorization: ${organization.apiKeyTest}' -H 'Content-Type: application/json' -d '{"count": 1}'
`);
};

/** Prints where to look at the demo data and, if they are new, their keys. */
export const printDemo = async (
  databaseUrl: string,
  { apiUrl, publicUrl }: { readonly apiUrl: string; readonly publicUrl: string },
  demo: FilledDemo | { readonly data: DemoData },
  output: Output,
): Promise<void> => {
  const { organizationId } = demo.data;
  const places = await describeDemo(databaseUrl, demo.data, publicUrl);
  const keys =
    "organizationKeys" in demo
      ? `A year of demo data was added. All planting is simulated, and no payment processor was billed.
${output.isTerminal ? "Save these keys now; they cannot" : "Save the test keys now; they cannot"} be shown again.
  organization
    production key  ${showProductionKey(demo.organizationKeys.apiKeyProd, `--org ${organizationId}`, output)}
    test key        ${demo.organizationKeys.apiKeyTest}
  store
    production key  ${showProductionKey(demo.storeKeys.apiKeyProd, `--store ${DEMO_STORE.domain}`, output)}
    test key        ${demo.storeKeys.apiKeyTest}`
      : `The demo data already exist; nothing was added. To issue another key:
  npm run -s impact -- key issue --org ${organizationId} --mode live`;
  output.print(`
${keys}
Look at:
${places.map((line) => `  ${line}`).join("\n")}
With the organization's production key in KEY:
  curl -sS '${apiUrl}/stats?kind=tree&interval=month&group_by=attribution' -H "Authorization: $KEY"
`);
};
