import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { findFreePort } from "../program/probePort.ts";
import { StartupError } from "../program/startupError.ts";
import { readLogTail, spawnWithLog } from "./managedProcess.ts";
import type { ManagedProcess, StartContext } from "./managedProcess.ts";
import { requireFreePort } from "./ports.ts";
import type { TemporalCli } from "./temporalCli.ts";

export type EmbeddedTemporal = {
  readonly address: string;
  readonly uiUrl: string | null;
  readonly process: ManagedProcess;
};

const run = promisify(execFile);

const HOST = "127.0.0.1";
/** A second usually; a busy machine may take long. */
const UP_WITHIN_MS = 120_000;
const POLL_MS = 100;

/** Closed workflows stay inspectable for a month; the dev server's own 24 hours are too short for support. */
const RETENTION = "720h";

/**
 * The dev server has one history shard whose queue readers poll 20 times a second, so that after a short burst every
 * workflow step waits 50 ms. These lift that (150 ms to 25 ms for a one-activity workflow on two cores) and the request
 * limits meant for a shared cluster.
 */
const DYNAMIC_CONFIG = [
  "history.transferProcessorMaxPollRPS=5000",
  "history.timerProcessorMaxPollRPS=1000",
  "history.visibilityProcessorMaxPollRPS=1000",
  "frontend.rps=20000",
  "frontend.namespaceRPS=20000",
].flatMap((value) => ["--dynamic-config-value", value]);

/** WAL doubles what a file-backed server manages; `normal` loses nothing when the process is killed. */
const persistence = (databaseFile: string): string[] => [
  "--db-filename",
  databaseFile,
  "--sqlite-pragma",
  "journal_mode=wal",
  "--sqlite-pragma",
  "synchronous=normal",
];

/** The first call that the server answers also sets the retention. */
const waitUntilUp = async (
  cli: TemporalCli,
  address: string,
  namespace: string,
  server: ManagedProcess,
  logFile: string,
): Promise<void> => {
  const ended = server.exited.then(() => true);
  const deadline = performance.now() + UP_WITHIN_MS;
  const update = ["operator", "namespace", "update", "--retention", RETENTION, "-n", namespace];
  // A profile or variables that point at another Temporal must not redirect this call.
  const here = ["--address", address, "--disable-config-env", "--disable-config-file"];
  for (;;) {
    const up = run(cli.path, [...update, ...here], { timeout: 10_000 }).then(
      () => true,
      () => false,
    );
    if (await Promise.race([ended, up.then(() => false)])) {
      throw new StartupError(
        `The Temporal server ended while it started:\n${readLogTail(logFile)}`,
      );
    }
    if (await up) {
      return;
    }
    if (performance.now() > deadline) {
      await server.stop();
      throw new StartupError(
        `The Temporal server did not answer within ${UP_WITHIN_MS / 1000} seconds:\n${readLogTail(logFile)}`,
      );
    }
    await sleep(POLL_MS);
  }
};

/**
 * Starts Temporal's development server on the loopback address and waits until it answers.
 * @param databaseFile keeps its state; null keeps it in memory. The server makes the schema of a new file only, so the
 *   name must carry the version
 * @param port 0 takes any free port; `uiPort` likewise, and null starts no web pages
 * @throws StartupError when a port is taken or the server does not come up
 */
export const startTemporalServer = async ({
  cli,
  databaseFile,
  namespace,
  port,
  uiPort,
  logFile,
  context,
}: {
  readonly cli: TemporalCli;
  readonly databaseFile: string | null;
  readonly namespace: string;
  readonly port: number;
  readonly uiPort: number | null;
  readonly logFile: string;
  readonly context: StartContext;
}): Promise<EmbeddedTemporal> => {
  await requireFreePort(HOST, port, "EMBEDDED_TEMPORAL_PORT", "embedded Temporal server");
  if (uiPort !== null) {
    await requireFreePort(HOST, uiPort, "EMBEDDED_TEMPORAL_UI_PORT", "embedded Temporal web UI");
  }
  const ownPort = port === 0 ? await findFreePort() : port;
  const ownUiPort = uiPort === 0 ? await findFreePort() : uiPort;
  const address = `${HOST}:${ownPort}`;
  const server = await spawnWithLog({
    name: "Temporal server",
    command: cli.path,
    args: [
      "server",
      "start-dev",
      "--log-level=warn",
      "--log-format=json",
      `--ip=${HOST}`,
      `--port=${ownPort}`,
      `--namespace=${namespace}`,
      ...(ownUiPort === null ? ["--headless"] : [`--ui-port=${ownUiPort}`]),
      ...(databaseFile === null ? [] : persistence(databaseFile)),
      ...DYNAMIC_CONFIG,
    ],
    options: {},
    logFile,
    stopSignals: [{ signal: "SIGTERM", waitMs: 10_000 }],
    context,
  });
  await waitUntilUp(cli, address, namespace, server, logFile);
  return {
    address,
    uiUrl: ownUiPort === null ? null : `http://${HOST}:${ownUiPort}`,
    process: server,
  };
};
