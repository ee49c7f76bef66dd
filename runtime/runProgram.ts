import type { Logger } from "pino";
import { readConfig } from "./config/config.ts";
import type { Config } from "./config/config.ts";
import { StartupError } from "./errors.rules.ts";
import { configureOutgoing } from "./outgoing.ts";
import { createLogger } from "./createLogger.ts";
import { reportReady } from "./readyMessage.ts";
import { shutdownRequested } from "./waiting.ts";
import { setFlagsFromString } from "node:v8";

/** How far the old generation may grow beyond its live size before it is collected, in percent. */
const HEAP_GROWING_PERCENT = 200;

/**
 * Sets V8's collector for requests that wait for the database: their objects are not allocated in the old generation,
 * where dead objects keep others alive, and major collections do not become frequent after an idle time. See
 * docs/adr/0100-collector-for-requests-that-wait.md.
 */
const tuneGarbageCollection = (): void => {
  setFlagsFromString("--no-allocation-site-pretenuring");
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWING_PERCENT}`);
};

export type RunningPart = {
  /** The URLs that it serves, by name. */
  readonly urls: Readonly<Record<string, string>>;
  /** Rejects if the part cannot continue. */
  readonly failed?: Promise<never>;
  /** Runs before `stop` after SIGTERM, which an orchestrator sends; a second signal cuts it short. */
  readonly drain?: () => Promise<void>;
  readonly stop: () => Promise<void>;
};

/**
 * Runs a long-lived program: reads the configuration, starts the program, reports its URLs to the parent and the log, and
 * stops it on request. An error that an operator can fix is one sentence on stderr, with exit code 1.
 * @param shutdownTimeoutMs after it the process exits, even if not everything has stopped
 */
export const runProgram = async (
  name: string,
  start: (config: Config, logger: Logger) => Promise<RunningPart>,
  shutdownTimeoutMs: number,
): Promise<never> => {
  tuneGarbageCollection();
  try {
    const config = readConfig();
    configureOutgoing();
    const logger = createLogger(config, name);
    const stopTracing =
      config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined
        ? undefined
        : (await import("./startTracing.ts")).startTracing(config, name, logger);
    const shutdown = shutdownRequested();
    const { urls, failed, drain, stop } = await start(config, logger);
    if (!reportReady(urls)) {
      logger.info(urls, "ready");
    }
    const reason = await (failed ? Promise.race([shutdown, failed]) : shutdown);
    logger.info({ reason }, "stopping");
    if (drain && reason === "SIGTERM") {
      await Promise.race([drain(), shutdownRequested()]);
    }
    setTimeout(() => {
      logger.fatal("shutdown timed out");
      process.exit(1);
    }, shutdownTimeoutMs).unref();
    await stop();
    await stopTracing?.();
    logger.info("stopped");
  } catch (error) {
    if (!(error instanceof StartupError)) {
      throw error;
    }
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
  // The event loop would not end: Temporal's client retries past a call's deadline, and the IPC channel stays open.
  process.exit();
};
