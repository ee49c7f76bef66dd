import { setImmediate } from "node:timers/promises";
import { createLogger } from "../../runtime/createLogger.ts";

/* Logs lines and ends in the way that its first argument names. */

const logger = createLogger({ LOG_LEVEL: "info", LOG_FORMAT: "json" }, "test");
const end = process.argv[2];

let number = 0;
const logLines = (count: number, text?: string): void => {
  for (const last = number + count; number < last; number += 1) {
    logger.info({ number, text }, "line");
  }
};

if (end === "disconnect") {
  process.on("message", (count: number) => {
    logLines(count, "x".repeat(1000));
    process.send?.("logged");
  });
  process.on("disconnect", () => process.exit(0));
} else if (end === "turns") {
  for (let turn = 0; turn < 300; turn += 1) {
    logLines(100, "x".repeat(1000));
    await setImmediate();
  }
} else {
  // A killed process has only what was written at once, which the buffer of a pipe must hold.
  logLines(end === "fatal" ? 300 : 1000);
}
if (end === "exit") {
  process.exit(0);
} else if (end === "error") {
  throw new Error("ended");
} else if (end === "fatal") {
  logger.fatal("killed");
  process.kill(process.pid, "SIGKILL");
}
