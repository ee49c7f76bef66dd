import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { Agent, request } from "node:http";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { buildChildEnvironment } from "../config/config.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import type { Result } from "./support/result.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { median } from "./support/statistics.ts";
import { accountIds } from "./support/waitUntilDrained.ts";
import { watchMachine } from "./support/watchMachine.ts";

export type MixedSizes = {
  readonly registrations: number;
  readonly rounds: number;
  readonly roundMs: number;
  readonly connections: number;
  readonly requestsPerSecond: number;
};

const SPAN_SECONDS = 7 * 24 * 3600;
const WRITING_ACCOUNTS = 100;
const WARM_UP_MS = 2000;
/** More than an import can read in a round. */
const IMPORTED_LINES = 2_000_000;
/** The exit code of a reconciliation that found differences: without a worker, what is registered is not sent. */
const DIFFERENCES = 1;

/** Work that is repeated until the signal aborts it. */
type Work = (aborted: AbortSignal) => Promise<void>;

const CLI = fileURLToPath(new URL("../cli/impact.js", import.meta.url));

/** Reads a list again and again, as fast as it comes. */
const readLists =
  (url: string, key: string, accept: string): Work =>
  async (aborted) => {
    const agent = new Agent({ keepAlive: true });
    try {
      while (!aborted.aborted) {
        const call = request(url, {
          agent,
          signal: aborted,
          headers: { Authorization: key, Accept: accept },
        });
        call.end();
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- events are not typed; `response` has one value.
        const [response] = (await once(call, "response")) as [IncomingMessage];
        if (response.statusCode !== 200) {
          throw new Error(`The list was answered with status ${response.statusCode}.`);
        }
        response.resume();
        await once(response, "end");
      }
    } catch (error) {
      if (!aborted.aborted) {
        throw error;
      }
    } finally {
      agent.destroy();
    }
  };

/** Runs a command again and again. */
const runCommands =
  (databaseUrl: string, parameters: readonly string[], accepted: readonly number[]): Work =>
  async (aborted) => {
    while (!aborted.aborted) {
      const child = spawn(process.execPath, [CLI, ...parameters], {
        env: buildChildEnvironment(/^(STRIPE|TEMPORAL|DATABASE)_/u, { DATABASE_URL: databaseUrl }),
        stdio: "ignore",
      });
      const stop = (): void => void child.kill("SIGKILL");
      aborted.addEventListener("abort", stop);
      const [code] = await once(child, "exit");
      aborted.removeEventListener("abort", stop);
      if (!aborted.aborted && !accepted.includes(Number(code))) {
        throw new Error(`impact ${parameters.join(" ")} exited with code ${String(code)}.`);
      }
    }
  };

function* historyLines(): Generator<string> {
  for (let start = 0; start < IMPORTED_LINES; start += 1000) {
    let text = "";
    for (let number = start; number < start + 1000; number += 1) {
      const createdAt = new Date(Date.UTC(2023, 0, 1) + number * 10_000).toISOString();
      text += `{"kind":"tree","id":"old-${number}","count":1,"created_at":"${createdAt}","metadata":{"order":${number}}}\n`;
    }
    yield text;
  }
}

const describe = ({ requestsPerSecond, p50Ms, p99Ms }: LoadReport): string =>
  `${requestsPerSecond.toFixed(0)}/s, p50 ${p50Ms.toFixed(1)}, p99 ${p99Ms.toFixed(1)} ms`;

/**
 * Compares the POSTs of many accounts, at a steady rate, with the same while another account's lists are read, usage is
 * reconciled and history is imported: each alone, and all together.
 */
export const measureMixed = async (
  services: Services,
  { registrations, rounds, roundMs, connections, requestsPerSecond }: MixedSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("mixed");
  const [reading = "", importing = "", ...writing] = accountIds(WRITING_ACCOUNTS + 2);
  const [readingKey = "", , ...keys] = await createAccounts(databaseUrl, [
    reading,
    importing,
    ...writing,
  ]);
  report(`filling ${registrations} registrations`);
  await fillRegistrations(databaseUrl, {
    accountId: reading,
    count: registrations,
    spanSeconds: SPAN_SECONDS,
    reported: true,
  });
  const history = join(services.folder, "history.ndjson");
  await pipeline(Readable.from(historyLines()), createWriteStream(history));
  // Nothing listens there; none of this needs Temporal.
  const settings = { DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS: "127.0.0.1:1" };
  const api = await services.startProgram("api/main.ts", settings);
  const url = `${api.url}/plant/trees`;
  const works: Readonly<Record<string, readonly Work[]>> = {
    "a list as JSON": [readLists(url, readingKey, "application/json")],
    "a list as CSV": [readLists(url, readingKey, "text/csv")],
    "a reconciliation": [runCommands(databaseUrl, ["usage", "reconcile"], [0, DIFFERENCES])],
    "an import": [
      runCommands(databaseUrl, ["import", "history", history, "--org", importing], [0]),
    ],
  };
  const load = { url, keys, connections, requestsPerSecond, durationMs: roundMs };
  const measure = async (parts: readonly Work[]): Promise<LoadReport> => {
    const ended = new AbortController();
    const running = Promise.all(parts.map((work) => work(ended.signal)));
    const measured = runLoad({ ...load, warmUpMs: WARM_UP_MS });
    // Work that fails ends the measurement.
    const [loaded] = await Promise.all([
      Promise.race([measured, running.then(() => measured)]).finally(() => ended.abort()),
      running,
    ]);
    return loaded;
  };
  const results: Result[] = [];
  const together = Object.values(works).flat();
  for (const [name, parts] of [...Object.entries(works), ["all of them", together] as const]) {
    const pairs: { readonly alone: LoadReport; readonly beside: LoadReport }[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const readOtherShare = await watchMachine();
      const alone = await measure([]);
      const beside = await measure(parts);
      const others = await readOtherShare();
      report(
        `POST beside ${name}: ${describe(beside)}; alone ${describe(alone)}; ` +
          `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
      );
      pairs.push({ alone, beside });
    }
    const ratio = median(pairs.map(({ alone, beside }) => beside.p99Ms / alone.p99Ms));
    const show = (value: (pair: (typeof pairs)[number]) => LoadReport): string =>
      `${median(pairs.map((pair) => value(pair).p50Ms)).toFixed(1)}, ` +
      `${median(pairs.map((pair) => value(pair).p99Ms)).toFixed(1)} ms`;
    results.push({
      what: `POST, ${requestsPerSecond}/s, beside ${name}: p50, p99`,
      measured: show(({ beside }) => beside),
      baseline: show(({ alone }) => alone),
      ratio: ratio.toFixed(2),
      goal: "p99 less than 2.00",
      isReached: ratio < 2,
    });
  }
  await api.stop();
  await services.dropDatabase("mixed");
  return results;
};
