import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import type { IncomingMessage, RequestOptions } from "node:http";
import { fileURLToPath } from "node:url";
import type { DatabasePool } from "slonik";
import { buildChildEnvironment } from "../../runtime/config/config.ts";
import { openBulkPace } from "../../db/createBulkPace.ts";
import type { BulkPace } from "../../db/createBulkPace.ts";
import { openPool } from "../../db/pools/pool.ts";

/** Work that POSTs are measured beside. */
export type Work = {
  /** Repeats the work until the signal aborts it. */
  readonly run: (aborted: AbortSignal) => Promise<void>;
  /** Returns how much was done, in the neighbor's unit. */
  readonly count: () => Promise<number>;
};

const CLI = fileURLToPath(new URL("../../cli/impact.js", import.meta.url));

export const readList = async (
  url: string,
  options: RequestOptions,
  onChunk: (chunk: Buffer) => void = () => undefined,
): Promise<void> => {
  const call = request(url, options);
  call.end();
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- events are not typed; `response` has one value.
  const [response] = (await once(call, "response")) as [IncomingMessage];
  if (response.statusCode !== 200) {
    throw new Error(`The list was answered with status ${response.statusCode}.`);
  }
  response.on("data", onChunk);
  await once(response, "end");
};

/** Reads a list again and again, as fast as it comes. */
export const readLists = (url: string, key: string, accept: string): Work => {
  let bytes = 0;
  const headers = { Authorization: key, Accept: accept };
  const run: Work["run"] = async (signal) => {
    const agent = new Agent({ keepAlive: true });
    try {
      while (!signal.aborted) {
        await readList(url, { agent, signal, headers }, ({ length }) => {
          bytes += length;
        });
      }
    } catch (error) {
      if (!signal.aborted) {
        throw error;
      }
    } finally {
      agent.destroy();
    }
  };
  return { run, count: () => Promise.resolve(bytes / 1e6) };
};

/** Runs a command again and again. Each run has its own parameters. */
export const runCommands =
  (databaseUrl: string, chooseParameters: () => readonly string[]): Work["run"] =>
  async (aborted) => {
    while (!aborted.aborted) {
      const parameters = chooseParameters();
      const child = spawn(process.execPath, [CLI, ...parameters], {
        env: buildChildEnvironment(/^(STRIPE|TEMPORAL|DATABASE)_/u, { DATABASE_URL: databaseUrl }),
        stdio: "ignore",
      });
      const stop = (): void => void child.kill("SIGKILL");
      aborted.addEventListener("abort", stop);
      const [code] = await once(child, "exit");
      aborted.removeEventListener("abort", stop);
      if (!aborted.aborted && code !== 0) {
        throw new Error(`impact ${parameters.join(" ")} exited with code ${String(code)}.`);
      }
    }
  };

/** Does bulk work again and again, as a worker does. */
export const repeat =
  (
    databaseUrl: string,
    work: (db: DatabasePool, pace: BulkPace, aborted: AbortSignal) => Promise<unknown>,
  ): Work["run"] =>
  async (aborted) => {
    const db = await openPool(databaseUrl, 2);
    const pace = openBulkPace(db);
    try {
      while (!aborted.aborted) {
        await work(db, pace, aborted);
      }
    } catch (error) {
      if (!aborted.aborted) {
        throw error;
      }
    } finally {
      await db.end();
    }
  };
