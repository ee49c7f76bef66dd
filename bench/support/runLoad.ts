import { fork } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { Program } from "./startServices.ts";
import { watchCpu } from "./watchMachine.ts";

export type LoadOptions = {
  /** Requests that `composeRequest` has composed for this URL; they are sent in rotation. */
  readonly requests: readonly string[];
  readonly url: string;
  readonly connections: number;
  /** If absent, each connection sends its next request as soon as it has a response. */
  readonly requestsPerSecond?: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
};

/** A process is slow for the first seconds, until its code is compiled. */
const WARM_UP_MS = 4000;

/** Each request has another number in its place, of as many characters. */
export const NUMBER = "{{number}}";

const measured = z.strictObject({
  requestsPerSecond: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
});

export type LoadReport = z.output<typeof measured> & {
  /** CPU time of a request in microseconds. */
  readonly serverUs: number;
  readonly postgresUs: number;
};

const GENERATOR = fileURLToPath(new URL("../programs/loadGenerator.ts", import.meta.url));

/** Returns the text of a GET, or of a POST if it has a body. */
export const composeRequest = (
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string | null = null,
): string => {
  const { host, pathname, search } = new URL(url);
  const lines = Object.entries({
    Host: host,
    ...headers,
    ...(body === null
      ? {}
      : { "Content-Type": "application/json", "Content-Length": String(Buffer.byteLength(body)) }),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const method = body === null ? "GET" : "POST";
  return `${method} ${pathname}${search} HTTP/1.1\r\n${lines.join("")}\r\n${body ?? ""}`;
};

/** Returns a registration of a tree for each key, with a new idempotency key each time. */
export const composeRegistrations = (url: string, keys: readonly string[]): readonly string[] => {
  const runId = crypto.randomUUID();
  const body = `{"count":1,"attribution":"bench","metadata":{"order":"${NUMBER}"},"idempotency_key":"${runId}-${NUMBER}"}`;
  return keys.map((key) => composeRequest(`${url}/plant/trees`, { Authorization: key }, body));
};

/**
 * Sends requests to a program from a separate process.
 * @throws Error when a request failed
 */
export const runLoad = async (
  program: Pick<Program, "pid">,
  options: Omit<LoadOptions, "warmUpMs">,
): Promise<LoadReport> => {
  const child = fork(GENERATOR, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const ended = new Promise<z.output<typeof measured>>((resolve, reject) => {
    child.once("message", (message) => resolve(measured.parse(message)));
    child.once("exit", (code) => reject(new Error(`The load generator exited with code ${code}.`)));
    child.send({ ...options, warmUpMs: WARM_UP_MS } satisfies LoadOptions);
  });
  await Promise.race([delay(WARM_UP_MS), ended]);
  const readServerMs = await watchCpu([program.pid]);
  const readPostgresMs = await watchCpu("postgres");
  const report = await ended;
  const requests = (report.requestsPerSecond * options.durationMs) / 1000;
  return {
    ...report,
    serverUs: ((await readServerMs()) * 1000) / requests,
    postgresUs: ((await readPostgresMs()) * 1000) / requests,
  };
};

export const describeLoad = ({
  requestsPerSecond,
  p50Ms,
  p99Ms,
  serverUs,
  postgresUs,
}: LoadReport): string =>
  `${requestsPerSecond.toFixed(0)}/s, p50 ${p50Ms.toFixed(1)}, p99 ${p99Ms.toFixed(1)} ms, ` +
  `${serverUs.toFixed(0)} + ${postgresUs.toFixed(0)} µs of CPU (server + PostgreSQL)`;
