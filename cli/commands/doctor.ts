import { describeUnknownSettings } from "../../runtime/config/config.ts";
import { resolve } from "node:path";
import type { RunFile } from "../../runtime/runFile.ts";
import { withTimeout } from "../../runtime/waiting.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { readServerStatus } from "../../db/connections/serverStatus.ts";
import { BILLING_CHECKS, STRIPE_CHECKS, checkStripe } from "./doctorBilling.ts";
import { DATABASE_CHECKS } from "./doctorDatabase.ts";
import { ok, skipped, warning, wrong } from "./doctorFindings.ts";
import type { Checks, DatabaseContext, Finding, Result } from "./doctorFindings.ts";
import { DEPLOYMENT_CHECKS, WORKER_CHECKS, checkTemporal } from "./doctorWorkers.ts";
import { only } from "../output/print.ts";
import type { Cli, Define } from "../command.ts";

const API_TIMEOUT_MS = 5000;

const checkApi =
  (urlOf: (started: RunFile) => string) =>
  async ({ connections }: Cli): Promise<Result> => {
    const started = await connections.running();
    if (!started) {
      return skipped("no `npm start` with this database is running; use /readyz of others");
    }
    const url = urlOf(started);
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(API_TIMEOUT_MS) });
    const body = await response.text();
    return response.ok
      ? ok(`ready at ${url}`)
      : wrong(`${url}/readyz returned ${response.status} ${body}`);
  };

const checkSettingNames = (): Result => {
  const unknown = describeUnknownSettings();
  return unknown === null ? ok("no unknown ones") : warning(unknown);
};

const checkSettings = async ({ connections }: Cli): Promise<Result> => {
  const { DATABASE_URL, TEMPORAL_ADDRESS, DATA_DIR } = connections.config();
  const given = Object.entries({ DATABASE_URL, TEMPORAL_ADDRESS }).flatMap(([name, value]) =>
    value === undefined ? [] : [name],
  );
  const started = await connections.running();
  const source = `${started ? "an" : "no"} \`npm start\` with this database is running with ${resolve(DATA_DIR)}`;
  return ok([source, ...given.map((name) => `${name} is set`)].join("; "));
};

const checkDatabase = async ({ connections }: Cli): Promise<Result> => {
  const { version } = await readServerStatus(await connections.database());
  return ok(`PostgreSQL ${version}, schema up to date`);
};

/** Clients would be billed for trees that nobody plants. */
const checkPartner = async ({ connections }: Cli): Promise<Result> => {
  const { PLANTING_PARTNER: partner } = connections.config();
  const stripe = await connections.stripe();
  if (partner !== "simulated" || stripe === null) {
    return ok(partner);
  }
  const account = await stripe.readAccount().catch(() => null);
  if (account === null) {
    return skipped("it is simulated, and whether Stripe bills in live mode cannot be read");
  }
  return account.isLive
    ? warning(
        "Stripe bills in live mode, and the planting partner is simulated, so no tree is planted. Set PLANTING_PARTNER",
      )
    : ok(partner);
};

const withDatabase = (checks: Checks<DatabaseContext>): Checks<Cli> =>
  Object.fromEntries(
    Object.entries(checks).map(([name, run]) => [
      name,
      async (context) => run({ ...context, db: await context.connections.database() }),
    ]),
  );

/** The checks in their order, in groups with the names of those that must be ok before. */
const GROUPS: readonly (readonly [needs: readonly string[], checks: Checks<Cli>])[] = [
  [[], { "names in .env": checkSettingNames, settings: checkSettings }],
  [["settings"], { database: checkDatabase }],
  [["settings", "database"], withDatabase(DATABASE_CHECKS)],
  [["settings"], { Temporal: checkTemporal, Stripe: checkStripe }],
  [["settings", "database", "Temporal"], withDatabase(WORKER_CHECKS)],
  [["settings", "database"], withDatabase({ ...DEPLOYMENT_CHECKS, ...BILLING_CHECKS })],
  [["settings", "database", "Stripe"], withDatabase(STRIPE_CHECKS)],
  [
    ["settings"],
    {
      "planting partner": checkPartner,
      "standalone API": checkApi(({ apiUrl }) => apiUrl),
      "store API": checkApi(({ storeUrl }) => storeUrl),
    },
  ],
];

/** Longer than the timeout of every single call. */
const TIMEOUT_MS = 15_000;

const runCheck = async (run: () => Promise<Result> | Result): Promise<Result> => {
  try {
    return await withTimeout(TIMEOUT_MS, Promise.resolve(run()));
  } catch (error) {
    return wrong(describeError(error));
  }
};

/** Runs the checks one after the other, because the clock is not measured beside other queries. */
const diagnose = async (context: Cli): Promise<readonly Finding[]> => {
  const results = new Map<string, Result>();
  for (const [needs, checks] of GROUPS) {
    const missing = needs.find((name) => results.get(name)?.status !== "ok");
    for (const [name, run] of Object.entries(checks)) {
      const result =
        missing === undefined
          ? await runCheck(() => run(context))
          : skipped(`the check "${missing}" is not ok`);
      results.set(name, result);
    }
  }
  return Array.from(results, ([check, result]) => Object.assign({ check }, result));
};

export const defineDoctorCommand: Define = (command, cli) => {
  command.action(async () => {
    const findings = await diagnose(cli);
    const of = (status: Finding["status"]) => findings.filter((each) => each.status === status);
    const [problems, warnings] = [of("wrong"), of("warning")];
    const sorted = [...problems, ...warnings, ...of("ok"), ...of("skipped")];
    cli.printList(sorted, only(sorted, ["check", "status", "detail"]));
    const sum = `${problems.length} of ${findings.length} checks found a problem, ${warnings.length} warned, ${of("skipped").length} were skipped.`;
    if (problems.length > 0) {
      throw new CommandError(EXIT.failed, sum);
    }
    cli.say(sum);
  });
};
