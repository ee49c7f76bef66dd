import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { z } from "zod";

export type LoadOptions = {
  /** `GET` reads; absent registers, or posts the body. */
  readonly method?: "GET";
  readonly url: string;
  /** Used in rotation. */
  readonly keys: readonly string[];
  /** The path and query that each key reads, instead of the URL's. */
  readonly paths?: readonly string[];
  /** The body that each key posts, and the status that it gets. If absent, registrations are posted. */
  readonly posted?: { readonly bodies: readonly string[]; readonly status: number };
  /** The domain of each key's store. If absent, the requests are for the standalone interface. */
  readonly shopNames?: readonly string[];
  readonly connections: number;
  /** If absent, each connection sends its next request as soon as it has a response. */
  readonly requestsPerSecond?: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
};

const loadReport = z.strictObject({
  requestsPerSecond: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  failures: z.int(),
  sampleFailure: z.string().nullable(),
  /** CPU use of the generator, as a share of one core. Near 1, the generator is the bottleneck. */
  cpuShare: z.number(),
});

export type LoadReport = z.output<typeof loadReport>;

const GENERATOR = fileURLToPath(new URL("../loadGenerator.ts", import.meta.url));

/**
 * Sends registrations, or other requests, from a separate process.
 * @throws Error when a request failed, because error responses say nothing about speed
 */
export const runLoad = async (options: LoadOptions): Promise<LoadReport> => {
  const child = fork(GENERATOR, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const report = await new Promise<LoadReport>((resolve, reject) => {
    child.once("message", (message) => resolve(loadReport.parse(message)));
    child.once("exit", (code) => reject(new Error(`The load generator exited with code ${code}.`)));
    child.send(options);
  });
  if (report.failures > 0) {
    throw new Error(`${report.failures} requests failed, one with: ${report.sampleFailure}`);
  }
  return report;
};
