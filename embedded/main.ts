import { basename } from "node:path";
import { parseArgs } from "node:util";
import { ConfigError, readConfig } from "../runtime/config/config.ts";
import { configureOutgoing } from "../runtime/outgoing.ts";
import { StartupError } from "../runtime/errors.rules.ts";
import {
  describeUnknownSettings,
  findUnknownSettings,
} from "../runtime/config/findUnknownSettings.ts";
import { start } from "./start.ts";
import type { Start } from "./start.ts";

/*
 * npm start: everything on one machine. `--demo` fills a new database with a year of history. `--stop-with-parent` stops
 * it when its parent process is gone: if npm is killed with SIGKILL, its child would otherwise keep running.
 */

const PARENT_POLL_MS = 250;
const REPEATED_SIGNAL_MS = 1000;

type Arguments = {
  readonly isDemo: boolean;
  readonly isHelp: boolean;
  readonly stopsWithParent: boolean;
};

const USAGE = "The only option is --demo, as in: npm start -- --demo";
/** Given by the npm script, so errors do not name it. */
const STOP_WITH_PARENT = "--stop-with-parent";

/** @throws StartupError for unknown arguments */
const readArguments = (): Arguments => {
  try {
    const { values } = parseArgs({
      options: {
        demo: { type: "boolean" },
        help: { type: "boolean" },
        "stop-with-parent": { type: "boolean" },
      },
    });
    return {
      isDemo: values.demo === true,
      isHelp: values.help === true,
      stopsWithParent: values["stop-with-parent"] === true,
    };
  } catch (error) {
    const given = process.argv.slice(2).filter((argument) => argument !== STOP_WITH_PARENT);
    throw new StartupError(`Unknown argument: ${given.join(" ")}. ${USAGE}`, { cause: error });
  }
};

const say = (line: string): void => console.error(line);

/** Resolves when a signal arrives or the parent process is gone. */
const shutdownRequested = ({ stopsWithParent }: Arguments): Promise<void> =>
  new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(signal, () => resolve());
    }
    if (stopsWithParent) {
      const parent = process.ppid;
      setInterval(() => {
        if (process.ppid !== parent) {
          resolve();
        }
      }, PARENT_POLL_MS).unref();
    }
  });

/** A second Ctrl-C kills everything. The first one arrives twice, from the terminal and forwarded by npm. */
const forceOnNextSignal = ({ supervisor, forget }: Start): void => {
  const since = performance.now();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (performance.now() - since < REPEATED_SIGNAL_MS) {
        return;
      }
      say("Killing all processes.");
      process.exitCode = 1;
      // What this process itself waits for, such as a database, may never answer.
      void supervisor
        .killAll()
        .then(forget)
        .finally(() => process.exit());
    });
  }
};

const describe = (error: unknown): string =>
  error instanceof StartupError || error instanceof ConfigError
    ? error.message
    : `Unexpected error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;

const main = async (): Promise<void> => {
  const given = readArguments();
  if (given.isHelp) {
    console.log(`Starts the service with its databases. ${USAGE}`);
    return;
  }
  configureOutgoing();
  const shutdown = shutdownRequested(given);
  const unknown = findUnknownSettings();
  if (unknown.length > 0) {
    say(`Warning: ${describeUnknownSettings(unknown)}.`);
  }
  const output = { print: console.log, isTerminal: process.stdout.isTTY, onProgress: say };
  const running = await start(readConfig(), output, given);
  const failure = await Promise.race([
    shutdown.then(() => null),
    running.ready.then(
      () => new Promise<never>(() => {}),
      (error: unknown) => describe(error),
    ),
    running.supervisor.firstExit.then(
      ({ name, how, logFile }) =>
        `${name} ended unexpectedly (${how}); see ${logFile === null ? "its output above" : `its log ${logFile}, which the next start renames to ${basename(logFile)}.previous`}. Stopping the other processes. No data is lost; run npm start again.`,
    ),
  ]);
  say(failure ?? "Stopping …");
  if (failure !== null) {
    process.exitCode = 1;
  }
  forceOnNextSignal(running);
  await running.supervisor.stopAll();
  await running.release();
};

// If the output pipe is closed, as in `npm start | head`, the child processes must still be stopped.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", () => {});
}

try {
  await main();
} catch (error) {
  say(describe(error));
  process.exitCode = 1;
}
// The signal handlers would keep the process alive.
process.exit();
