import { basename, resolve as resolvePath } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect, parseArgs } from "node:util";
import { describeUnknownSettings, readConfig } from "../runtime/config/config.ts";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";
import { lockFolder, removeRunFile } from "../runtime/runFile.ts";
import { shutdownRequested } from "../runtime/waiting.ts";
import { demoSettings } from "./demo/demoSettings.ts";
import { startAll } from "./start.ts";
import { awaitLeftovers, createSupervisor } from "./supervisor.ts";

/* npm start: everything on one machine. `--demo` has a separate database with a year of history. */

const PARENT_POLL_MS = 1000;
/** How long to wait for a previous `npm start` that is stopping. */
const LOCK_WAIT_MS = 5000;
/** How long a start that was interrupted may go on with what it does not interrupt, such as creating a database. */
const START_WAIT_MS = 5000;

const USAGE = "The only option is --demo, as in: npm start -- --demo";

/** @throws StartupError for unknown arguments */
const readArguments = () => {
  try {
    const options = { demo: { type: "boolean" }, help: { type: "boolean" } } as const;
    return parseArgs({ options }).values;
  } catch (error) {
    throw new StartupError(`${errorDetails(error).message}\n${USAGE}`, { cause: error });
  }
};

/** Resolves when the parent process is gone: npm, if it is killed, does not stop its children. */
const parentExited = (): Promise<void> =>
  new Promise((resolve) => {
    const parent = process.ppid;
    setInterval(() => {
      if (process.ppid !== parent) {
        resolve();
      }
    }, PARENT_POLL_MS).unref();
  });

const describe = (error: unknown): string =>
  error instanceof StartupError ? error.message : `Unexpected error: ${inspect(error)}`;

const main = async (): Promise<void> => {
  const { demo: isDemo = false, help } = readArguments();
  if (help === true) {
    console.log(`Starts the service with its databases. ${USAGE}`);
    return;
  }
  const shutdown = Promise.race([shutdownRequested(), parentExited()]).then(() => null);
  const unknown = describeUnknownSettings();
  if (unknown !== null) {
    console.error(`Warning: ${unknown}.`);
  }
  const settings = isDemo ? demoSettings(readConfig().DATA_DIR) : {};
  const config = readConfig(settings);
  const dataDir = resolvePath(config.DATA_DIR);
  const unlock = lockFolder(dataDir, LOCK_WAIT_MS);
  if ((await Promise.race([shutdown, awaitLeftovers(dataDir, console.error)])) === null) {
    return;
  }
  const { context, firstExit, stopAll } = createSupervisor(dataDir, console.error);
  const ready = startAll({ ...config, DATA_DIR: dataDir }, settings, context, isDemo);
  const failure = await Promise.race([
    shutdown,
    ready.then(
      () => new Promise<never>(() => {}),
      (error: unknown) => describe(error),
    ),
    firstExit.then(
      ({ name, how, logFile }) =>
        `${name} ended unexpectedly (${how}); see ${logFile === null ? "its output above" : `its log ${logFile}, which the next start renames to ${basename(logFile)}.previous`}. Stopping the other processes. No data is lost; run npm start again.`,
    ),
  ]);
  console.error(failure ?? "Stopping …");
  if (failure !== null) {
    process.exitCode = 1;
  }
  await stopAll();
  await Promise.race([ready.catch(() => undefined), sleep(START_WAIT_MS)]);
  await removeRunFile(dataDir);
  unlock();
};

// If the output pipe is closed, as in `npm start | head`, the child processes must still be stopped.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", () => {});
}

try {
  await main();
} catch (error) {
  console.error(describe(error));
  process.exitCode = 1;
}
// The signal handlers would keep the process alive.
process.exit();
