import { fileURLToPath } from "node:url";
import { bundleWorkflowCode, DefaultLogger } from "@temporalio/worker";

/* A program of its own, because the bundler's memory, a hundred megabytes, would stay with the worker. */

const { code } = await bundleWorkflowCode({
  workflowsPath: fileURLToPath(new URL("../workflows/index.ts", import.meta.url)),
  // The bundler's progress messages do not help an operator.
  logger: new DefaultLogger("WARN"),
});
process.stdout.write(code);
