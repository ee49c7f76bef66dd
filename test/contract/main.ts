import { parseArgs } from "node:util";
import { STANDALONE_CHECKS, STORE_CHECKS } from "./checks/allChecks.ts";
import { createService } from "./client.ts";
import { runCheck } from "./check.ts";

/* npm run contract: compares any server of the two contracts with them, over HTTP. */

const HELP = `Usage: npm run contract -- [--standalone URL] [--store URL] [--decisions] [--only TEXT]

Compares a server with the contract and prints one line for each check.

Options:
  --standalone URL  base URL of the standalone interface
  --store URL       base URL of the store-platform interface
  --decisions       also check what this project decided where the contract is open
  --only TEXT       run only the checks whose line contains the text
  --help            show this help

Keys are read from the environment. A check that needs a missing one is skipped.
  IMPACT_TEST_KEY               test key of an organization
  IMPACT_OTHER_TEST_KEY         test key of another organization
  IMPACT_PROD_KEY               production key of the first organization
  IMPACT_UNSUBSCRIBED_PROD_KEY  production key of an organization without a donation subscription
  STORE_SHOP                    domain of a store
  STORE_USER_ID                 user id of that store
  STORE_TEST_KEY                test key of that store
  STORE_PROD_KEY                production key of that store
  STORE_OTHER_SHOP              domain of another store
  STORE_OTHER_TEST_KEY          test key of that store

Test keys cause no charges. With a production key, the checks also record live trees, bottles and donations and refund
them; with STORE_PROD_KEY they spend the store's whole balance on trees and on bottles and refund it. Use accounts that
were created for this purpose.

The checks create thousands of records of the test mode, and tolerate other records. They can run repeatedly, but not
twice at the same time with the same keys.

Exit codes: 0 all checks passed or were skipped, 1 the server differs, 2 the command was not understood.
`;

const usageError = (message: string): number => {
  console.error(`${message}. See --help.`);
  return 2;
};

const baseUrl = (given: string | undefined): string | undefined => given?.replace(/\/+$/u, "");

const main = async (args: readonly string[]): Promise<number> => {
  let values;
  try {
    ({ values } = parseArgs({
      args: [...args],
      options: {
        standalone: { type: "string" },
        store: { type: "string" },
        decisions: { type: "boolean", default: false },
        only: { type: "string", default: "" },
        help: { type: "boolean", default: false },
      },
    }));
  } catch (error) {
    return usageError(error instanceof Error ? error.message : String(error));
  }
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const target = { standalone: baseUrl(values.standalone), store: baseUrl(values.store) };
  if (target.standalone === undefined && target.store === undefined) {
    return usageError("Pass --standalone URL, --store URL or both");
  }
  for (const [name, url] of Object.entries(target)) {
    if (url !== undefined && !/^https?:\/\//u.test(url)) {
      return usageError(`--${name} must be a URL that begins with http:// or https://`);
    }
  }
  const service = createService({ ...target, settings: process.env });
  const checks = [
    ...(target.standalone === undefined ? [] : STANDALONE_CHECKS),
    ...(target.store === undefined ? [] : STORE_CHECKS),
  ].filter(
    ({ section, name, isDecision }) =>
      (values.decisions || !isDecision) && `${section}: ${name}`.includes(values.only),
  );
  if (checks.length === 0) {
    return usageError(`No check contains ${JSON.stringify(values.only)}`);
  }
  const counts = { ok: 0, differs: 0, skipped: 0 };
  for (const check of checks) {
    const outcome = await runCheck(service, check);
    counts[outcome.result] += 1;
    const label = `${outcome.result.padEnd(7)}  ${check.section}: ${check.name}`;
    console.log(outcome.result === "ok" ? label : `${label}: ${outcome.reason}`);
  }
  console.log(`\n${counts.ok} ok, ${counts.differs} differ, ${counts.skipped} skipped`);
  return counts.differs > 0 ? 1 : 0;
};

process.exitCode = await main(process.argv.slice(2));
