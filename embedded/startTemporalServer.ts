import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { buildChildEnvironment } from "../runtime/config/config.ts";
import { choosePort } from "../runtime/server/ports.ts";
import { findTemporalCli } from "./findTemporalCli.ts";
import { startServer } from "./supervisor.ts";
import type { StartContext } from "./supervisor.ts";

const run = promisify(execFile);

const HOST = "127.0.0.1";
/** It usually takes a second; a busy machine may need much longer. */
const READY_TIMEOUT_MS = 120_000;

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
].map((value) => `--dynamic-config-value=${value}`);

/** WAL doubles the throughput of a file-backed server; `normal` loses nothing if the process is killed. */
const PERSISTENCE = ["--sqlite-pragma=journal_mode=wal", "--sqlite-pragma=synchronous=normal"];

/**
 * Starts Temporal's development server on the loopback interface and waits until it responds.
 * @param setting where its program is, if not where `findTemporalCli` looks
 * @param folder has its log and, unless it is in memory, its state
 * @param port 0 for any free port
 * @param uiPort 0 for any free port, null for no web UI
 * @throws StartupError if the server does not start
 */
export const startTemporalServer = async ({
  setting,
  folder,
  isInMemory = false,
  namespace,
  port,
  uiPort,
  context,
}: {
  readonly setting: string | undefined;
  readonly folder: string;
  readonly isInMemory?: boolean;
  readonly namespace: string;
  readonly port: number;
  readonly uiPort: number | null;
  readonly context: StartContext;
}) => {
  const cli = await findTemporalCli(setting, context);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const actualPort = await choosePort(HOST, port, "EMBEDDED_TEMPORAL_PORT");
  const actualUiPort =
    uiPort === null ? null : await choosePort(HOST, uiPort, "EMBEDDED_TEMPORAL_UI_PORT");
  const address = `${HOST}:${actualPort}`;
  // The first successful call also sets the retention.
  const update = ["operator", "namespace", "update", "--retention", RETENTION, "-n", namespace];
  // Profiles and environment variables for another Temporal must not redirect this call.
  const target = ["--address", address, "--disable-config-env", "--disable-config-file"];
  const { server } = await startServer(
    {
      name: "Temporal server",
      command: cli.path.includes("/") ? resolve(cli.path) : cli.path,
      args: [
        "server",
        "start-dev",
        "--log-level=warn",
        "--log-format=json",
        `--ip=${HOST}`,
        `--port=${actualPort}`,
        `--namespace=${namespace}`,
        ...(actualUiPort === null
          ? ["--headless"]
          : [`--ui-ip=${HOST}`, `--ui-port=${actualUiPort}`]),
        // The server does not migrate the file of an earlier version.
        ...(isInMemory ? [] : [`--db-filename=temporal-${cli.version}.db`, ...PERSISTENCE]),
        ...DYNAMIC_CONFIG,
      ],
      // The server takes the name for a part of a URI, in which characters of a path such as # have a meaning.
      cwd: folder,
      // Go collects its garbage when the heap has grown by these percent: 100 by default. A server that tests share may grow.
      env: buildChildEnvironment(null, { GOGC: isInMemory ? "400" : "40" }),
      logFile: join(folder, "temporal.log"),
      signal: "TERM",
      stopMs: 10_000,
      readyMs: READY_TIMEOUT_MS,
      attempt: () => run(cli.path, [...update, ...target], { timeout: 10_000 }).catch(() => null),
    },
    context,
  );
  return {
    address,
    uiUrl: actualUiPort === null ? null : `http://${HOST}:${actualUiPort}`,
    process: server,
  };
};
