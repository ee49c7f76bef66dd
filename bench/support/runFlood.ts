import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { z } from "zod";

export type FloodOptions = {
  readonly url: string;
  readonly path: string;
  readonly key: string;
  /** `{uuid}` is replaced by a new one in each request. */
  readonly body: string;
  readonly connections: number;
  /** Requests that a connection sends without waiting for responses. */
  readonly pipelined: number;
  readonly durationMs: number;
};

const floodReport = z.strictObject({
  /** Responses by status, and broken connections as `lost`. */
  statuses: z.record(z.string(), z.int()),
});

export type FloodReport = z.output<typeof floodReport>;

const GENERATOR = fileURLToPath(new URL("../floodGenerator.ts", import.meta.url));

/** Floods the service from a separate process. */
export const runFlood = async (options: FloodOptions): Promise<FloodReport> => {
  const child = fork(GENERATOR, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  return new Promise<FloodReport>((resolve, reject) => {
    child.once("message", (message) => resolve(floodReport.parse(message)));
    child.once("exit", (code) =>
      reject(new Error(`The flood generator exited with code ${code}.`)),
    );
    child.send(options);
  });
};
