import { createDemoOrganization } from "./createDemoOrganization.ts";
import type { DemoData } from "./demo/demoData.ts";
import { describeDemo } from "./demo/describeDemo.ts";
import type { FilledDemo } from "./demo/fillDemo.ts";
import { DEMO_STORE } from "./demo/planDemo.ts";
import type { StartContext } from "./managedProcess.ts";

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
