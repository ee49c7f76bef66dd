import { Agent, get } from "node:http";
import { percentile } from "./statistics.ts";

export type ReadReport = { readonly requestsPerSecond: number; readonly p50Ms: number };

const readOnce = (agent: Agent, url: string, headers: Readonly<Record<string, string>>) =>
  new Promise<void>((resolve, reject) => {
    get(url, { agent, headers }, (response) => {
      response.resume();
      response.once("end", () =>
        response.statusCode === 200
          ? resolve()
          : reject(new Error(`${url} returned status ${response.statusCode ?? "unknown"}`)),
      );
    }).once("error", reject);
  });

/**
 * Sends GET requests over keep-alive connections in a closed loop. Node's HTTP client takes a share of the CPU, so compare
 * the results only with one another.
 * @param urls used in rotation
 */
export const readRepeatedly = async ({
  urls,
  headers = {},
  connections,
  warmUpMs,
  durationMs,
}: {
  readonly urls: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
}): Promise<ReadReport> => {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const latenciesMs: number[] = [];
  const startedAtMs = performance.now() + warmUpMs;
  let next = 0;
  const sendRequests = async (): Promise<void> => {
    while (performance.now() < startedAtMs + durationMs) {
      const sentAtMs = performance.now();
      await readOnce(agent, urls[next++ % urls.length] ?? "", headers);
      if (sentAtMs >= startedAtMs) {
        latenciesMs.push(performance.now() - sentAtMs);
      }
    }
  };
  await Promise.all(Array.from({ length: connections }, sendRequests));
  agent.destroy();
  return {
    requestsPerSecond: (latenciesMs.length / durationMs) * 1000,
    p50Ms: percentile(
      latenciesMs.toSorted((left, right) => left - right),
      0.5,
    ),
  };
};
