import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

/*
 * npm run test:convergence -- --seeds 2000 --steps 60 --processes 2: runs the model test with many seeds in several processes, of
 * which each has a PostgreSQL server, and prints what has happened in those that fail.
 */

const RUN = fileURLToPath(new URL("../../support/run.ts", import.meta.url));
const TEST = "test/billing/convergence/convergence.test.ts";

/** Seeds of one run, whose database grows with each of them. */
const SEEDS_PER_RUN = 25;

const { values } = parseArgs({
  options: {
    first: { type: "string", default: "1" },
    seeds: { type: "string", default: "2000" },
    steps: { type: "string", default: "60" },
    processes: { type: "string", default: "2" },
  },
});
const first = Number(values.first);
const seeds = Number(values.seeds);
const processes = Number(values.processes);

let nextSeed = first;
let operations = 0;
let histories = 0;
let failedRuns = 0;

const runSeeds = async (range: string): Promise<void> => {
  const child = spawn(process.execPath, [RUN, TEST], {
    stdio: ["ignore", "pipe", "pipe"],
    // Temporal is not used.
    env: {
      ...process.env,
      TEST_TEMPORAL_ADDRESS: "127.0.0.1:1",
      CONVERGENCE_SEEDS: range,
      CONVERGENCE_STEPS: values.steps,
    },
  });
  // ava passes on what a test prints by its own standard error.
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await once(child, "exit");
  const found = /(\d+) operations in (\d+) histories/u.exec((await output).join(""));
  operations += Number(found?.[1] ?? 0);
  histories += Number(found?.[2] ?? 0);
  if (code !== 0) {
    failedRuns += 1;
    console.log((await output).join("\n"));
  }
  console.log(`${operations} operations in ${histories} histories`);
};

const work = async (): Promise<void> => {
  while (nextSeed < first + seeds) {
    const from = nextSeed;
    nextSeed = Math.min(from + SEEDS_PER_RUN, first + seeds);
    await runSeeds(`${from}-${nextSeed - 1}`);
  }
};

await Promise.all(Array.from({ length: processes }, work));
if (failedRuns > 0) {
  console.log(`${failedRuns} runs failed`);
  process.exitCode = 1;
}
