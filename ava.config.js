/** The files that take longest start first, so that none of them runs alone at the end. */
const LONGEST = [
  "embedded/start.system",
  "api/linearInput",
  "worker/billedOnce.system",
  "api/program.system",
  "history/importProcess.system",
  "runtime/tracing.system",
  "dashboard/browser.system",
  "embedded/demo.system",
  "deploy/haproxy.system",
  "deploy/proxies.system",
  "client/package.system",
  "workflows/billing",
  "worker/lifecycle.system",
  "worker/outages.system",
  "worker/billedOnce.system",
  "api/kills.system",
  "worker/sharedNamespace.system",
  "worker/webhooks.system",
  "charities/programs.system",
  "events/worker.system",
  "db/pooler.system",
  "billing/repair/failover.system",
  "contract/checks",
  "worker/dispatcher",
  "worker/ensureWorkflows",
  "billing/periods/subscriptions",
  "billing/repair/crashes",
  "billing/convergence/convergence",
  "billing/repair/restore",
  "worker/copiedDatabase",
  "cli/doctor",
];

const startOrder = (file) => {
  const index = LONGEST.findIndex((name) => file.endsWith(`/${name}.test.ts`));
  return index === -1 ? LONGEST.length : index;
};

export default {
  // ava.system.config.js has the others.
  files: ["test/**/*.test.ts", "!test/**/*.system.test.ts"],
  extensions: ["ts"],
  sortTestFiles: (first, second) => startOrder(first) - startOrder(second),
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
