export default {
  files: ["test/**/*.test.ts"],
  extensions: ["ts"],
  // Temporal's worker is a native module that cannot run in worker threads.
  workerThreads: false,
  concurrency: 3,
  // Without any result for this long a test hangs; a busy machine may take a minute over one test.
  timeout: "300s",
};
