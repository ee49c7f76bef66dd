import { resolve } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import {
  describeUnknownSettings,
  findUnknownSettings,
} from "../../runtime/config/findUnknownSettings.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { only, printList } from "../output/print.ts";
import { readServerStatus } from "../../db/connections/serverStatus.ts";
import { BILLING_CHECKS, STRIPE_CHECKS, checkPrices, checkStripe } from "./doctorBilling.ts";
import { DATABASE_CHECKS } from "./doctorDatabase.ts";
import { check, ok, runChecks, skipped, warning, wrong } from "./doctorFindings.ts";
import type { Finding, Result } from "./doctorFindings.ts";
import { DEPLOYMENT_CHECKS, WORKER_CHECKS, checkTemporal } from "./doctorWorkers.ts";

const API_TIMEOUT_MS = 5000;

const checkReady = (name: string, url: string): Promise<Finding> =>
  check(name, async () => {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(API_TIMEOUT_MS) });
    const body = await response.text();
    return response.ok
      ? ok(`ready at ${url}`)
      : wrong(`${url}/readyz returned ${response.status} ${body}`);
  });

/** Checks the two APIs of a running `npm start`. */
const checkApi = async ({ connections }: CliContext): Promise<readonly Finding[]> => {
  const started = await connections.running();
  if (!started) {
    return [
      {
        check: "APIs",
        ...skipped(
          "only the APIs of an `npm start` with this database are checked; use /readyz of others",
        ),
      },
    ];
  }
  return [
    await checkReady("standalone API", started.apiUrl),
    await checkReady("store API", started.storeUrl),
  ];
};

/** The release that the service is tested with. */
const NODE_MAJOR = 24;

const checkNode = (): Result => {
  const { node } = process.versions;
  return Number.parseInt(node, 10) >= NODE_MAJOR
    ? ok(node)
    : wrong(
        `${node} is too old; the service needs Node ${NODE_MAJOR}. Use \`npm run -s impact\`, which brings its own`,
      );
};

const checkSettings = async ({ connections }: CliContext): Promise<Result> => {
  const { DATABASE_URL, TEMPORAL_ADDRESS, DATA_DIR } = connections.config();
  const given = Object.entries({ DATABASE_URL, TEMPORAL_ADDRESS }).flatMap(([name, value]) =>
    value === undefined ? [] : [name],
  );
  const started = await connections.running();
  const source = `${started ? "an" : "no"} \`npm start\` with this database is running with ${resolve(DATA_DIR)}`;
  return ok([source, ...given.map((name) => `${name} is set`)].join("; "));
};

const checkSettingNames = (): Result => {
  const unknown = findUnknownSettings();
  return unknown.length === 0 ? ok("no unknown ones") : warning(describeUnknownSettings(unknown));
};

const checkDatabase = async ({ connections }: CliContext): Promise<Result> => {
  const { version } = await readServerStatus(await connections.database());
  return ok(`PostgreSQL ${version}, schema up to date`);
};

/** Clients would be billed for trees that nobody plants. */
const checkPartner = async (
  { connections }: CliContext,
  canReadStripe: boolean,
): Promise<Result> => {
  const { PLANTING_PARTNER: partner } = connections.config();
  const stripe = await connections.stripe();
  if (partner !== "simulated" || stripe === null) {
    return ok(partner);
  }
  if (!canReadStripe) {
    return skipped("it is simulated, and whether Stripe bills in live mode cannot be read");
  }
  return (await stripe.readAccount()).isLive
    ? warning(
        "Stripe bills in live mode, and the planting partner is simulated, so no tree is planted. Set PLANTING_PARTNER",
      )
    : ok(partner);
};

/** Runs the checks that need valid settings: of each service first whether it can be reached, then the rest. */
const checkServices = async (context: CliContext): Promise<readonly Finding[]> => {
  const database = await check("database", () => checkDatabase(context));
  const db = database.status === "ok" ? await context.connections.database() : null;
  const [temporal, stripe] = await Promise.all([
    check("Temporal", () => checkTemporal(context)),
    check("Stripe", () => checkStripe(context, db)),
  ]);
  const records = db ? { ...context, db } : "the database cannot be reached";
  const workers = temporal.status === "ok" ? records : "Temporal cannot be reached";
  const billed = stripe.status === "ok" ? records : "Stripe is not configured or cannot be reached";
  return [
    database,
    ...(await runChecks(records, DATABASE_CHECKS)),
    temporal,
    ...(await runChecks(workers, WORKER_CHECKS)),
    ...(await runChecks(records, DEPLOYMENT_CHECKS)),
    stripe,
    ...(await runChecks(billed, STRIPE_CHECKS)),
    ...(await runChecks(records, BILLING_CHECKS)),
    ...(await runChecks(context, {
      "planting partner": () => checkPartner(context, stripe.status === "ok"),
      "donation prices": checkPrices,
    })),
    ...(await checkApi(context)),
  ];
};

export const defineDoctorCommand = (command: Command, context: CliContext): void => {
  command.action(async () => {
    const { io } = context;
    const findings = [
      ...(await runChecks(context, {
        Node: checkNode,
        "names in .env": checkSettingNames,
        settings: checkSettings,
      })),
    ];
    if (findings.at(-1)?.status === "ok") {
      findings.push(...(await checkServices(context)));
    }
    const of = (status: Finding["status"]) => findings.filter((each) => each.status === status);
    const [problems, warnings] = [of("wrong"), of("warning")];
    const sorted = [...problems, ...warnings, ...of("ok"), ...of("skipped")];
    printList(io, sorted, only(sorted, ["check", "status", "detail"]));
    const sum = `${problems.length} of ${findings.length} checks found a problem, ${warnings.length} warned, ${of("skipped").length} were skipped.`;
    if (problems.length > 0) {
      throw new CommandError(EXIT.failed, sum);
    }
    say(io, sum);
  });
};
