import { createLogger } from "../../program/log/createLogger.ts";

/* Logs lines and ends in the way that its first argument names. */

const logger = createLogger({ LOG_LEVEL: "info", LOG_FORMAT: "json" }, "test");
const end = process.argv[2];

for (let number = 0; number < 1000; number += 1) {
  logger.info({ number }, "line");
}
if (end === "exit") {
  process.exit(0);
} else if (end === "error") {
  throw new Error("ended");
} else if (end === "flush") {
  logger.flush();
  process.exit(0);
}
