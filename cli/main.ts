import { readConfig } from "../runtime/config/config.ts";
import { systemClock } from "../runtime/clock.ts";
import { configureOutgoing } from "../runtime/outgoing.ts";
import { createConnections } from "./connections.ts";
import { EXIT } from "./exitCodes.ts";
import { createPrinter } from "./output/print.ts";
import { asksForJson, runCli } from "./runCli.ts";

const args = process.argv.slice(2);
const io = { stdin: process.stdin, stdout: process.stdout, stderr: process.stderr };

// A dependency, roarr, listens too, and would throw these errors.
process.stdout.removeAllListeners("error").on("error", (error: NodeJS.ErrnoException) => {
  // A closed pipe, as in `impact usage list | head`, is not an error.
  if (error.code === "EPIPE") {
    process.exit();
  }
  const message = `The output cannot be written: ${error.message}. The command may have been completed.`;
  createPrinter({ ...io, json: asksForJson(args) }).sayError(message, EXIT.failed);
  process.exit(EXIT.failed);
});
// A command must not stop halfway because its messages cannot be written.
process.stderr.removeAllListeners("error").on("error", () => undefined);

configureOutgoing();
process.exitCode = await runCli(args, io, {
  connections: createConnections(readConfig),
  clock: systemClock,
});
