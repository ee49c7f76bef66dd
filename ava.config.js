import { statSync } from "node:fs";

/** Short files whose tests take long. */
const LONG = ["billing/convergence/convergence", "contract/checks", "workflows/billing"];

const weightOf = (file) =>
  LONG.some((name) => file.endsWith(`/${name}.test.ts`)) ? 1_000_000 : statSync(file).size;

export default {
  // ava.system.config.js has the others.
  files: ["test/**/*.test.ts", "!test/**/*.system.test.ts"],
  extensions: ["ts"],
  // The largest take longest. They start first, so that none of them runs alone at the end.
  sortTestFiles: (first, second) => weightOf(second) - weightOf(first),
  // Temporal's worker is a native module that cannot run in worker threads.
  workerThreads: false,
  // Importing a test's modules fills the young generation of 1 MB dozens of times, and most of it survives. A large one
  // saves a test process of about two seconds 7% of its CPU time.
  nodeArguments: [
    "--min-semi-space-size=32",
    "--max-semi-space-size=32",
    `--import=${import.meta.dirname}/test/support/ignoreSourceMaps.ts`,
  ],
  // Twice the cores of the smallest machine, because many files wait for other processes most of the time.
  concurrency: 4,
  // Without any result for this long a test hangs; a busy machine may take a minute over one test.
  timeout: "300s",
};
