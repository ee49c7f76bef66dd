import { availableParallelism, cpus, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { StartupError } from "../runtime/errors.rules.ts";
import { donate } from "./donate.ts";
import { evidence } from "./evidence.ts";
import { list } from "./list.ts";
import { mixed } from "./mixed.ts";
import { refund } from "./refund.ts";
import { register } from "./register.ts";
import { report } from "./report.ts";
import type { Benchmark, Neighbor, Sizes } from "./support/benchmark.ts";
import { NEIGHBORS } from "./support/benchmark.ts";
import type { Result } from "./support/compareRounds.ts";
import { formatTable } from "./support/compareRounds.ts";
import { query } from "./support/query.ts";
import { startServices } from "./support/startServices.ts";

const BENCHMARKS: Readonly<Record<string, Benchmark>> = {
  register,
  list,
  refund,
  donate,
  evidence,
  report,
  mixed,
};

const USAGE = `npm run bench [-- NAME… [--option N …]]

Runs all benchmarks, or those named, with a temporary PostgreSQL and Temporal server. Writes progress to stderr and a
table of results to stdout.

  register   POST of one account and of many, compared with bare Koa, and with the same write behind it
             --seconds 4  --connections 64  --accounts 1000
  list       GET of many registrations: memory, and speed compared with psql's COPY
             --listed 1000000
  refund     single refunds of organizations and of stores, compared with their registrations
             --seconds 4  --connections 64  --accounts 1000
  donate     donations to a charity of the built-in catalogue, compared with registrations
             --calls 200
  evidence   evidence of different trees and of one, compared with bare Koa
             --seconds 4  --connections 64  --calls 200
  report     usage that waits, to the ledger and to a Stripe double: events a second and CPU time of one
             --accounts 1000  --events 20
  mixed      POST at a steady rate beside bulk work, compared with the same rate alone
             --seconds 4  --connections 64  --rate 1000  --listed 1000000  --beside ${NEIGHBORS.join(",")}

  --rounds 3 measures each of them three times. --help writes this text.`;

const OPTIONS = {
  help: { type: "boolean", default: false },
  rounds: { type: "string", default: "3" },
  seconds: { type: "string", default: "4" },
  connections: { type: "string", default: "64" },
  accounts: { type: "string", default: "1000" },
  listed: { type: "string", default: "1000000" },
  events: { type: "string", default: "20" },
  calls: { type: "string", default: "200" },
  rate: { type: "string", default: "1000" },
  beside: { type: "string", default: NEIGHBORS.join(",") },
} as const;

const parseNeighbor = (text: string): Neighbor => {
  const neighbor = NEIGHBORS.find((name) => name === text);
  if (neighbor === undefined) {
    throw new RangeError(`--beside must be of ${NEIGHBORS.join(", ")}, not ${text}.`);
  }
  return neighbor;
};

const readArguments = () => {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: OPTIONS });
  const integer = (name: Exclude<keyof typeof OPTIONS, "help" | "beside">): number => {
    const number = Number(values[name]);
    if (!Number.isSafeInteger(number) || number < 1) {
      throw new RangeError(`--${name} must be an integer of at least 1, not ${values[name]}.`);
    }
    return number;
  };
  const sizes: Sizes = {
    rounds: integer("rounds"),
    roundMs: integer("seconds") * 1000,
    connections: integer("connections"),
    accounts: integer("accounts"),
    listed: integer("listed"),
    events: integer("events"),
    calls: integer("calls"),
    rate: integer("rate"),
    beside: values.beside.split(",").map(parseNeighbor),
  };
  return { help: values.help, names: positionals, sizes };
};

const describeConditions = async (databaseUrl: string): Promise<string> => {
  const [row] = await query<{ server_version: string }>(databaseUrl, "SHOW server_version");
  return [
    `${availableParallelism()} cores (${cpus()[0]?.model ?? "unknown"})`,
    `${(totalmem() / 1024 ** 3).toFixed(0)} GiB of memory`,
    `Node ${process.version}`,
    `PostgreSQL ${row?.server_version ?? "unknown"}, durable`,
    "medians of the rounds (minimum to maximum)",
  ].join("; ");
};

const main = async (): Promise<number> => {
  const { help, names, sizes } = readArguments();
  if (help) {
    console.error(USAGE);
    return 0;
  }
  const unknown = names.filter((name) => !Object.hasOwn(BENCHMARKS, name));
  if (unknown.length > 0) {
    throw new RangeError(`Unknown benchmarks: ${unknown.join(", ")}\n\n${USAGE}`);
  }
  const services = await startServices();
  const results: Result[] = [];
  try {
    for (const [name, measure] of Object.entries(BENCHMARKS)) {
      if (names.length === 0 || names.includes(name)) {
        results.push(...(await measure({ services, sizes, log: (line) => console.error(line) })));
      }
    }
    console.log(`${formatTable(results)}\n\n${await describeConditions(services.databaseUrl)}`);
  } finally {
    await services.stop();
  }
  return results.some(({ reached }) => reached === "NO") ? 1 : 0;
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
