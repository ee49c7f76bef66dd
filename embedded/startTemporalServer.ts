import { execFile } from "node:child_process";
import { basename, dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { findFreePort } from "../runtime/server/probePort.ts";
import { StartupError } from "../runtime/errors.rules.ts";
import { readLogTail, spawnWithLog } from "./managedProcess.ts";
import type { ManagedProcess, StartContext } from "./managedProcess.ts";
import type { TemporalCli } from "./findTemporalCli.ts";

type EmbeddedTemporal = {
  readonly address: string;
  readonly uiUrl: string | null;
  readonly process: ManagedProcess;
};

const run = promisify(execFile);

export const TEMPORAL_HOST = "127.0.0.1";
/** It usually takes a second; a busy machine may need much longer. */
const READY_TIMEOUT_MS = 120_000;
const POLL_MS = 100;

/** Closed workflows can be inspected for 30 days; the development server's 24 hours are too short for support. */
const RETENTION = "720h";

/**
 * The development server has one history shard, whose queues are polled 20 times a second, so every workflow step waits
 * 50 ms after a short burst. These values remove that wait (25 ms instead of 150 ms for a workflow with one activity on
 * two cores) and the request limits of a shared cluster.
 */
const DYNAMIC_CONFIG = [
  "history.transferProcessorMaxPollRPS=5000",
  "history.timerProcessorMaxPollRPS=1000",
  "history.visibilityProcessorMaxPollRPS=1000",
  "frontend.rps=20000",
  "frontend.namespaceRPS=20000",
].flatMap((value) => ["--dynamic-config-value", value]);

/** WAL doubles the throughput of a file-backed server; `normal` loses nothing if the process is killed. */
const persistence = (databaseFile: string): string[] => [
  "--db-filename",
  databaseFile,
  "--sqlite-pragma",
  "journal_mode=wal",
  "--sqlite-pragma",
  "synchronous=normal",
];

/** Waits for the first successful call, which also sets the retention. */
const waitUntilReady = async (
  cli: TemporalCli,
  address: string,
  namespace: string,
  server: ManagedProcess,
  logFile: string,
): Promise<void> => {
  const ended = server.exited.then(() => true);
  const deadline = performance.now() + READY_TIMEOUT_MS;
  const update = ["operator", "namespace", "update", "--retention", RETENTION, "-n", namespace];
  // Profiles and environment variables for another Temporal must not redirect this call.
  const target = ["--address", address, "--disable-config-env", "--disable-config-file"];
  for (;;) {
    const responded = run(cli.path, [...update, ...target], { timeout: 10_000 }).then(
      () => true,
      () => false,
    );
    if (await Promise.race([ended, responded.then(() => false)])) {
      throw new StartupError(`The Temporal server ended during startup:\n${readLogTail(logFile)}`);
    }
    if (await responded) {
      return;
    }
    if (performance.now() > deadline) {
      await server.stop();
      throw new StartupError(
        `The Temporal server did not respond within ${READY_TIMEOUT_MS / 1000} seconds:\n${readLogTail(logFile)}`,
      );
    }
    await sleep(POLL_MS);
  }
};

/**
 * Starts Temporal's development server on the loopback interface and waits until it responds.
 * @param databaseFile stores its state; null for in memory. The server does not migrate an existing file, so the name
 *   must contain the version
 * @param port 0 for any free port
 * @param uiPort 0 for any free port, null for no web UI
 * @throws StartupError if the server does not start
 */
export const startTemporalServer = async ({
  cli,
  databaseFile,
  namespace,
  port,
  uiHost = TEMPORAL_HOST,
  uiPort,
  logFile,
  context,
}: {
  readonly cli: TemporalCli;
  readonly databaseFile: string | null;
  readonly namespace: string;
  readonly port: number;
  readonly uiHost?: string;
  readonly uiPort: number | null;
  readonly logFile: string;
  readonly context: StartContext;
}): Promise<EmbeddedTemporal> => {
  const actualPort = port === 0 ? await findFreePort() : port;
  const actualUiPort = uiPort === 0 ? await findFreePort() : uiPort;
  const address = `${TEMPORAL_HOST}:${actualPort}`;
  const server = await spawnWithLog({
    name: "Temporal server",
    command: cli.path.includes("/") ? resolve(cli.path) : cli.path,
    args: [
      "server",
      "start-dev",
      "--log-level=warn",
      "--log-format=json",
      `--ip=${TEMPORAL_HOST}`,
      `--port=${actualPort}`,
      `--namespace=${namespace}`,
      ...(actualUiPort === null
        ? ["--headless"]
        : [`--ui-ip=${uiHost}`, `--ui-port=${actualUiPort}`]),
      ...(databaseFile === null ? [] : persistence(basename(databaseFile))),
      ...DYNAMIC_CONFIG,
    ],
    // The server takes the name for a part of a URI, in which characters of a path such as # have a meaning.
    options: databaseFile === null ? {} : { cwd: dirname(databaseFile) },
    logFile,
    stopSignals: [{ signal: "SIGTERM", waitMs: 10_000 }],
    context,
  });
  await waitUntilReady(cli, address, namespace, server, logFile);
  return {
    address,
    uiUrl: actualUiPort === null ? null : `http://${uiHost}:${actualUiPort}`,
    process: server,
  };
};
