import { availableParallelism, cpus, totalmem } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { Client } from "pg";
import { StartupError } from "../runtime/errors.rules.ts";
import { measureBatches } from "./measureBatches.ts";
import { measureDonationBatches } from "./measureDonationBatches.ts";
import { measureDonations } from "./measureDonations.ts";
import { measureEvidence } from "./measureEvidence.ts";
import { measureCached } from "./measureCached.ts";
import { measureCharitySearch } from "./measureCharitySearch.ts";
import { measureFind } from "./measureFind.ts";
import { measureGrowth } from "./measureGrowth.ts";
import { measureList } from "./measureList.ts";
import { measureMixed, NEIGHBORS } from "./measureMixed.ts";
import type { Neighbor } from "./measureMixed.ts";
import { measureNeighbor } from "./measureNeighbor.ts";
import { measureProcesses } from "./measureProcesses.ts";
import { measureReads } from "./measureReads.ts";
import { measureRecords } from "./measureRecords.ts";
import { measureRegistrations } from "./measureRegistrations.ts";
import { measureRestarts } from "./measureRestarts.ts";
import { measureBacklog, measureTraffic, TARGETS } from "./measureReporting.ts";
import type { Target } from "./measureReporting.ts";
import { measureRetries, measureSender } from "./measureSender.ts";
import { measureStalled } from "./measureStalled.ts";
import { measureStart } from "./measureStart.ts";
import { measureStatistics } from "./measureStatistics.ts";
import { measureStore } from "./measureStore.ts";
import { measureWebhooks } from "./measureWebhooks.ts";
import { measureYears, YEAR_STEPS } from "./measureYears.ts";
import type { YearStep } from "./measureYears.ts";
import type { Result } from "./support/result.ts";
import { formatTable } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { startServices } from "./support/startServices.ts";

const USAGE = `npm run bench [-- NAME… [--option N …]]

Runs all benchmarks, or those named, with a temporary PostgreSQL and Temporal server. Writes progress to stderr and a
table of results to stdout.

  registrations   POST /plant/trees, compared with an echo handler and with pgbench
                  --rounds 3  --seconds 4  --connections 64
  start           POST /plant/trees of the whole npm start, compared with a bare Koa app
                  --rounds 3  --seconds 4  --connections 64
  batches         POST /plant/trees/batch and /charities/donate/batch, compared with single requests
                  --rounds 3  --seconds 4  --connections 64
  store           POST /app/api/plant of one store and of 1,000, compared with POST /plant/trees
                  --rounds 3  --seconds 4  --connections 64
  list            GET of many registrations: memory, and speed compared with psql's COPY
                  --listed 1000000  --rounds 3
  stalled         memory of 50 lists whose clients stop reading
  sender          usage of one busy account: into how few events it is summed
                  --facts 100000
  backlog         usage of many accounts that waits: CPU time of an event, to the ledger and to a Stripe double
                  --accounts 1000  --events 20  --targets ledger,stripe  --workers 1
  traffic         usage of many accounts that the API receives at the same time: whether reporting keeps up
                  --accounts 1000  --every-seconds 1  --traffic-seconds 60  --targets ledger,stripe
                  --open-snapshot  beside a transaction that reads an old snapshot, as pg_dump does
  retries         usage of one account while 15 % of Stripe's responses are a 500
                  --failing-seconds 120
  processes       POST of many accounts with several APIs, and a backlog with several workers, on one database
                  --processes 1,2,4  --seconds 4  --connections 64  --accounts 1000  --events 20  --targets ledger,stripe
                  --pgbouncer  through PgBouncer in transaction mode, which must be installed; TEST_PGBOUNCER selects another
  donations       one donation at a time, alone and while usage is reported, compared with a registration
                  --donations 40  --reported 200
  evidence        evidence and dashboard of an account with many trees
                  --listed 1000000  --rounds 3  --seconds 4
  cached          cached dashboard and evidence, compared with the same bytes from a bare Koa app
                  --rounds 3  --seconds 4  --connections 64
  statistics      GET /stats of an account with many registrations in a year, compared with one that has few
                  --listed 1000000  --rounds 3
  charities       GET /charities/search, compared with plain SQL, on generated charities or real files
                  --charities 260000  --charity-files eo1.csv,eo2.csv  --searches 600
  mixed           POST at a steady rate beside lists, reconciliations, imports and the creation of planting orders
                  --listed 1000000  --rate 1000  --rounds 3  --seconds 4  --connections 64
                  --beside json,csv,reconciliation,command,import,planting,all  --data-folder FOLDER keeps the database for the next run
  neighbor        POST and /readyz while another account floods the process, compared with before
                  --seconds 4
  restarts        failed requests while two APIs behind HAProxy are restarted
                  --requests 20000  --restarts 10
  find            impact find over many accounts, compared with one account
                  --find-accounts 5000  --listed 1000000  --rounds 3
  records         single records of a large account and of a small one, both newer than the statistics
                  --rounds 3
  reads           reads of few records, and refused refunds, of many accounts, compared with a bare Koa app that reads them
                  --rounds 3  --seconds 4  --connections 64
  webhooks        deliveries to webhook endpoints, also beside some that never respond, compared with bare requests
                  --endpoints 1000  --deliveries 5  --silent 200
  growth          POST with few and with many existing registrations
                  --existing 10000,1000000,5000000  --rounds 3  --seconds 4  --connections 64
  years           POST and reads with three years of usage, compared with forty days; bytes and time of folding
                  --years-registrations 1000000  --years-steps fill,measure,fold,measure  --rounds 3  --seconds 4
                  --data-folder FOLDER keeps the databases for the next run  --budget-seconds 86400 ends a step early`;

const parseInteger = (name: string, text: string): number => {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new RangeError(`--${name} must be an integer of at least 1, not ${text}.`);
  }
  return number;
};

const parseTarget = (text: string): Target => {
  const target = TARGETS.find((name) => name === text);
  if (target === undefined) {
    throw new RangeError(`--targets must be of ${TARGETS.join(" and ")}, not ${text}.`);
  }
  return target;
};

const parseStep = (text: string): YearStep => {
  const step = YEAR_STEPS.find((name) => name === text);
  if (step === undefined) {
    throw new RangeError(`--years-steps must be of ${YEAR_STEPS.join(", ")}, not ${text}.`);
  }
  return step;
};

const parseNeighbor = (text: string): Neighbor | "all" => {
  const neighbor = ([...NEIGHBORS, "all"] as const).find((name) => name === text);
  if (neighbor === undefined) {
    throw new RangeError(`--beside must be of ${NEIGHBORS.join(", ")} and all, not ${text}.`);
  }
  return neighbor;
};

const OPTIONS = {
  help: { type: "boolean", default: false },
  rounds: { type: "string", default: "3" },
  seconds: { type: "string", default: "4" },
  connections: { type: "string", default: "64" },
  listed: { type: "string", default: "1000000" },
  facts: { type: "string", default: "100000" },
  accounts: { type: "string", default: "1000" },
  events: { type: "string", default: "20" },
  workers: { type: "string", default: "1" },
  processes: { type: "string", default: "1,2,4" },
  pgbouncer: { type: "boolean", default: false },
  "every-seconds": { type: "string", default: "1" },
  targets: { type: "string", default: TARGETS.join(",") },
  "traffic-seconds": { type: "string", default: "60" },
  "open-snapshot": { type: "boolean", default: false },
  donations: { type: "string", default: "40" },
  reported: { type: "string", default: "200" },
  "failing-seconds": { type: "string", default: "120" },
  charities: { type: "string", default: "260000" },
  "charity-files": { type: "string", default: "" },
  searches: { type: "string", default: "600" },
  rate: { type: "string", default: "1000" },
  beside: { type: "string", default: [...NEIGHBORS, "all"].join(",") },
  requests: { type: "string", default: "20000" },
  restarts: { type: "string", default: "10" },
  "find-accounts": { type: "string", default: "5000" },
  endpoints: { type: "string", default: "1000" },
  deliveries: { type: "string", default: "5" },
  silent: { type: "string", default: "200" },
  existing: { type: "string", default: "10000,1000000,5000000" },
  "years-registrations": { type: "string", default: "1000000" },
  "years-steps": { type: "string", default: "fill,measure,fold,measure" },
  "budget-seconds": { type: "string", default: "86400" },
  "data-folder": { type: "string", default: "" },
} as const;

const readArguments = () => {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: OPTIONS });
  const repeated = {
    rounds: parseInteger("rounds", values.rounds),
    roundMs: parseInteger("seconds", values.seconds) * 1000,
    connections: parseInteger("connections", values.connections),
  };
  const accounts = parseInteger("accounts", values.accounts);
  const targets = values.targets.split(",").map(parseTarget);
  const backlog = {
    accounts,
    events: parseInteger("events", values.events),
    workers: parseInteger("workers", values.workers),
    targets,
  };
  return {
    help: values.help,
    dataFolder: values["data-folder"] === "" ? null : resolve(values["data-folder"]),
    years: {
      ...repeated,
      registrations: parseInteger("years-registrations", values["years-registrations"]),
      steps: values["years-steps"].split(",").map(parseStep),
      budgetMs: parseInteger("budget-seconds", values["budget-seconds"]) * 1000,
    },
    names: positionals,
    repeated,
    list: { registrations: parseInteger("listed", values.listed), rounds: repeated.rounds },
    charities: {
      rows: parseInteger("charities", values.charities),
      files: values["charity-files"].split(",").filter(Boolean),
      searches: parseInteger("searches", values.searches),
    },
    mixed: {
      ...repeated,
      registrations: parseInteger("listed", values.listed),
      requestsPerSecond: parseInteger("rate", values.rate),
      beside: values.beside.split(",").map(parseNeighbor),
    },
    restarts: {
      requests: parseInteger("requests", values.requests),
      restarts: parseInteger("restarts", values.restarts),
    },
    find: {
      accounts: parseInteger("find-accounts", values["find-accounts"]),
      registrations: parseInteger("listed", values.listed),
      rounds: repeated.rounds,
    },
    facts: parseInteger("facts", values.facts),
    backlog,
    processes: {
      ...repeated,
      backlog,
      pgbouncer: values.pgbouncer,
      counts: values.processes.split(",").map((count) => parseInteger("processes", count)),
    },
    traffic: {
      accounts,
      everySeconds: parseInteger("every-seconds", values["every-seconds"]),
      seconds: parseInteger("traffic-seconds", values["traffic-seconds"]),
      hasOpenSnapshot: values["open-snapshot"],
      targets,
    },
    donations: {
      donations: parseInteger("donations", values.donations),
      reportedPerSecond: parseInteger("reported", values.reported),
    },
    webhooks: {
      endpoints: parseInteger("endpoints", values.endpoints),
      deliveries: parseInteger("deliveries", values.deliveries),
      silent: parseInteger("silent", values.silent),
    },
    failingSeconds: parseInteger("failing-seconds", values["failing-seconds"]),
    growth: {
      ...repeated,
      existing: values.existing.split(",").map((count) => parseInteger("existing", count)),
    },
  };
};

type Report = (line: string) => void;

const createBenchmarks = ({
  repeated,
  list,
  facts,
  backlog,
  traffic,
  processes,
  donations,
  failingSeconds,
  charities,
  mixed,
  restarts,
  find,
  webhooks,
  growth,
  years,
}: ReturnType<typeof readArguments>): ReadonlyMap<
  string,
  (services: Services, report: Report) => Promise<readonly Result[]>
> =>
  new Map([
    ["registrations", (services, report) => measureRegistrations(services, repeated, report)],
    ["start", (services, report) => measureStart(services, repeated, report)],
    [
      "batches",
      async (services, report) => [
        ...(await measureBatches(services, repeated, report)),
        ...(await measureDonationBatches(services, repeated, report)),
      ],
    ],
    ["store", (services, report) => measureStore(services, repeated, report)],
    ["list", (services, report) => measureList(services, list, report)],
    ["stalled", measureStalled],
    ["sender", (services, report) => measureSender(services, facts, report)],
    ["backlog", (services, report) => measureBacklog(services, backlog, report)],
    ["traffic", (services, report) => measureTraffic(services, traffic, report)],
    ["processes", (services, report) => measureProcesses(services, processes, report)],
    ["donations", (services, report) => measureDonations(services, donations, report)],
    ["retries", (services, report) => measureRetries(services, failingSeconds, report)],
    [
      "evidence",
      (services, report) =>
        measureEvidence(
          services,
          { ...repeated, connections: 16, registrations: list.registrations },
          report,
        ),
    ],
    ["cached", (services, report) => measureCached(services, repeated, report)],
    ["statistics", (services, report) => measureStatistics(services, list, report)],
    ["charities", (services, report) => measureCharitySearch(services, charities, report)],
    ["mixed", (services, report) => measureMixed(services, mixed, report)],
    ["neighbor", (services, report) => measureNeighbor(services, repeated, report)],
    ["restarts", (services, report) => measureRestarts(services, restarts, report)],
    ["find", (services, report) => measureFind(services, find, report)],
    ["records", (services, report) => measureRecords(services, repeated.rounds, report)],
    ["reads", (services, report) => measureReads(services, repeated, report)],
    ["webhooks", (services, report) => measureWebhooks(services, webhooks, report)],
    ["growth", (services, report) => measureGrowth(services, growth, report)],
    ["years", (services, report) => measureYears(services, years, report)],
  ]);

const describeConditions = async (services: Services): Promise<string> => {
  const client = new Client({ connectionString: services.databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ version: string }>(
    "SELECT current_setting('server_version') AS version",
  );
  await client.end();
  return [
    `${availableParallelism()} cores (${cpus()[0]?.model ?? "unknown"})`,
    `${(totalmem() / 1024 ** 3).toFixed(0)} GiB of memory`,
    `${process.platform} ${process.arch}`,
    `Node ${process.version}`,
    `PostgreSQL ${rows[0]?.version ?? "unknown"}, durable`,
    "medians of the rounds (minimum to maximum)",
  ].join("; ");
};

const main = async (): Promise<number> => {
  const args = readArguments();
  const benchmarks = createBenchmarks(args);
  const unknown = args.names.filter((name) => !benchmarks.has(name));
  if (args.help || unknown.length > 0) {
    console.error(
      unknown.length > 0 ? `Unknown benchmarks: ${unknown.join(", ")}\n\n${USAGE}` : USAGE,
    );
    return unknown.length > 0 ? 2 : 0;
  }
  const services = await startServices(args.dataFolder);
  const results: Result[] = [];
  try {
    for (const [name, measure] of benchmarks) {
      if (args.names.length === 0 || args.names.includes(name)) {
        results.push(...(await measure(services, (line) => console.error(line))));
      }
    }
    console.log(`${formatTable(results)}\n\n${await describeConditions(services)}`);
  } finally {
    await services.stop();
  }
  return results.every(({ isReached }) => isReached !== false) ? 0 : 1;
};

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof StartupError || error instanceof RangeError)) {
    throw error;
  }
  console.error(error.message);
  process.exitCode = 2;
}
