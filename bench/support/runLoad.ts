import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { z } from "zod";

export type LoadOrder = {
  readonly url: string;
  /** Taken in turn. */
  readonly keys: readonly string[];
  /** Plants for this store; without it the requests are the standalone interface's. */
  readonly shopName?: string;
  readonly connections: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
};

const loadReport = z.strictObject({
  requestsPerSecond: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  failures: z.int(),
  sampleFailure: z.string().nullable(),
  /** The generator's own share of one core: near 1 it would be what is measured. */
  cpuShare: z.number(),
});

export type LoadReport = z.output<typeof loadReport>;

const GENERATOR = fileURLToPath(new URL("../loadGenerator.ts", import.meta.url));

/**
 * Sends registrations from a process of its own.
 * @throws Error when a request failed: a measurement of refusals says nothing
 */
export const runLoad = async (order: LoadOrder): Promise<LoadReport> => {
  const child = fork(GENERATOR, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const report = await new Promise<LoadReport>((resolve, reject) => {
    child.once("message", (message) => resolve(loadReport.parse(message)));
    child.once("exit", (code) => reject(new Error(`The load generator ended (${code}).`)));
    child.send(order);
  });
  if (report.failures > 0) {
    throw new Error(`${report.failures} requests failed, one with: ${report.sampleFailure}`);
  }
  return report;
};
