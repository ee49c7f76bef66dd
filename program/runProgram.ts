import type { Logger } from "pino";
import { ConfigError, readConfig } from "../config/config.ts";
import type { Config } from "../config/config.ts";
import { SchemaMismatchError } from "../db/migrate.ts";
import { createLogger } from "./createLogger.ts";
import { StartupError } from "./startupError.ts";

/** A part of the service that runs until it is told to stop. */
export type RunningPart = {
  /** Where it can be reached, by what is to be reached there. */
  readonly urls: Readonly<Record<string, string>>;
  /** Settles with an error when the part ends by itself. */
  readonly ended?: Promise<never>;
  readonly stop: () => Promise<void>;
};

/** Resolves when the process is asked to end, by a signal or by the end of the program that started it. */
const askedToEnd = (): Promise<string> =>
  new Promise((resolve) => {
    for (const event of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(event, () => resolve(event));
    }
    process.on("disconnect", () => resolve("the end of the parent process"));
  });

const isForTheOperator = (error: unknown): error is Error =>
  error instanceof ConfigError ||
  error instanceof StartupError ||
  error instanceof SchemaMismatchError;

/**
 * Runs a long-lived program: reads the configuration, starts, tells its parent and its log where it can be reached, and
 * ends in order when asked to. What an operator can mend is told in a sentence on stderr, with exit code 1.
 * @param stopWithinMs the whole of an orderly end; what is not done by then is cut off
 */
export const runProgram = async (
  name: string,
  start: (config: Config, logger: Logger) => Promise<RunningPart>,
  stopWithinMs: number,
): Promise<never> => {
  try {
    const config = readConfig();
    const logger = createLogger(config, name);
    const end = askedToEnd();
    const { urls, ended, stop } = await start(config, logger);
    logger.info(urls, "ready");
    process.send?.({ type: "ready", urls });
    const reason = await (ended ? Promise.race([end, ended]) : end);
    logger.info({ reason }, "stopping");
    setTimeout(() => {
      logger.fatal("not everything ended in time");
      logger.flush();
      process.exit(1);
    }, stopWithinMs).unref();
    await stop();
    logger.info("stopped");
    logger.flush();
  } catch (error) {
    if (!isForTheOperator(error)) {
      throw error;
    }
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
  // Not left to the event loop: Temporal's client retries past a call's deadline, and the channel to a parent stays open.
  process.exit();
};
