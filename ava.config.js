export default {
  files: ["test/**/*.test.ts"],
  extensions: ["ts"],
  // Temporal's worker is a native module that does not live in worker threads.
  workerThreads: false,
  concurrency: 2,
  timeout: "120s",
};
