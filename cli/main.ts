import { readConfig } from "../config/config.ts";
import { systemClock } from "../domain/clock.ts";
import { createConnections } from "./connections.ts";
import { runCli } from "./runCli.ts";

// A closed pipe, as in `impact usage list | head`, is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") {
    throw error;
  }
  process.exit();
});

process.exitCode = await runCli(process.argv.slice(2), {
  io: { stdin: process.stdin, stdout: process.stdout, stderr: process.stderr },
  connections: createConnections(readConfig),
  clock: systemClock,
});
