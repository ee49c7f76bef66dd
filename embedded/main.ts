import { fileURLToPath } from "node:url";
import { ConfigError, readConfig } from "../config/config.ts";
import { StartupError } from "../program/startupError.ts";
import { start } from "./start.ts";
import type { Start } from "./start.ts";

/*
 * npm start: everything on one machine. `--stop-with-parent` stops it when the process that started it is gone, as npm
 * is after SIGKILL: npm's child would otherwise run on unseen.
 */

const PARENT_POLL_MS = 250;
const ECHO_MS = 1000;

const roles = {
  worker: { name: "worker", module: fileURLToPath(new URL("../worker/main.ts", import.meta.url)) },
  api: { name: "API", module: fileURLToPath(new URL("../api/main.ts", import.meta.url)) },
};

const say = (line: string): void => console.error(line);

/** Resolves with why to stop, when somebody asks for it. */
const waitForStopRequest = (): Promise<string> =>
  new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(signal, () => resolve(signal));
    }
    if (process.argv.includes("--stop-with-parent")) {
      const parent = process.ppid;
      setInterval(() => {
        if (process.ppid !== parent) {
          resolve("the process that started this is gone");
        }
      }, PARENT_POLL_MS).unref();
    }
  });

/** A second Ctrl-C does not wait. The first comes twice, from the terminal and from npm, which passes it on. */
const forceOnNextSignal = ({ supervisor }: Start): void => {
  const since = performance.now();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (performance.now() - since < ECHO_MS) {
        return;
      }
      say("Stopping everything at once.");
      process.exitCode = 1;
      void supervisor.killAll();
    });
  }
};

const describe = (error: unknown): string =>
  error instanceof StartupError || error instanceof ConfigError
    ? error.message
    : `This should not have happened: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;

const main = async (): Promise<void> => {
  const stopRequest = waitForStopRequest();
  const running = await start(readConfig(), roles, { print: console.log, onProgress: say });
  const failure = await Promise.race([
    stopRequest.then(() => null),
    running.up.then(
      () => new Promise<never>(() => {}),
      (error: unknown) => describe(error),
    ),
    running.supervisor.firstLoss.then(
      ({ name, how }) =>
        `${name} ended unexpectedly (${how}). Stopping the rest; nothing is lost: run npm start again.`,
    ),
  ]);
  say(failure ?? "Stopping …");
  if (failure !== null) {
    process.exitCode = 1;
  }
  forceOnNextSignal(running);
  await running.supervisor.stopAll();
  await running.leave();
};

// A closed pipe behind `npm start | head` must not keep us from stopping what we started.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", () => {});
}

try {
  await main();
} catch (error) {
  say(describe(error));
  process.exitCode = 1;
}
// What still listens for signals and watches the parent would keep it alive.
process.exit();
