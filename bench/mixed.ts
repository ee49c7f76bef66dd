import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { DatabasePool } from "slonik";
import { createBulkPool } from "../db/createBulkPool.ts";
import { openPool } from "../db/pools/pool.ts";
import { createPlantingOrders } from "../modules/planting/createPlantingOrders.ts";
import { systemClock } from "../runtime/clock.ts";
import { inheritEnvironment } from "../runtime/config/config.ts";
import { createTestPlanting } from "../test/support/planting.ts";
import type { Benchmark, Neighbor } from "./support/benchmark.ts";
import { NEIGHBORS } from "./support/benchmark.ts";
import { compareRounds } from "./support/compareRounds.ts";
import { accountIds, createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { readStream } from "./support/readStream.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { composeRegistrations, describeLoad, runLoad } from "./support/runLoad.ts";

const WRITING_ACCOUNTS = 100;
/** In it, bulk work begins. */
const START_MS = 2000;
/** More than an import can read in a round. */
const IMPORTED_LINES = 500_000;

const CLI = fileURLToPath(new URL("../cli/impact.js", import.meta.url));

/** Bulk work, which is done again and again until the signal aborts it. */
type Work = (aborted: AbortSignal) => Promise<unknown>;

const repeat = async (work: Work, aborted: AbortSignal): Promise<void> => {
  try {
    while (!aborted.aborted) {
      await work(aborted);
    }
  } catch (error) {
    if (!aborted.aborted) {
      throw error;
    }
  }
};

const writeHistory = async (folder: string): Promise<string> => {
  const file = join(folder, "history.ndjson");
  const lines = Array.from({ length: IMPORTED_LINES }, (_, number) => {
    const createdAt = new Date(Date.UTC(2023, 0, 1) + number * 10_000).toISOString();
    return `{"kind":"tree","id":"old-${number}","count":1,"created_at":"${createdAt}","metadata":{"order":${number}}}`;
  });
  await writeFile(file, `${lines.join("\n")}\n`);
  return file;
};

/** Imports a file with the command, each time into a new account, which has none of it yet. */
const importHistory =
  (databaseUrl: string, file: string): Work =>
  async (aborted) => {
    const [accountId = ""] = accountIds(1);
    await createAccounts(databaseUrl, [accountId]);
    const child = spawn(process.execPath, [CLI, "import", "history", file, "--org", accountId], {
      env: { ...inheritEnvironment(/^(STRIPE|TEMPORAL|DATABASE)_/u), DATABASE_URL: databaseUrl },
      stdio: "ignore",
      signal: aborted,
      killSignal: "SIGKILL",
    });
    const [code] = await once(child, "exit");
    if (!aborted.aborted && code !== 0) {
      throw new Error(`impact import history exited with code ${String(code)}.`);
    }
  };

const createWorks = (
  db: DatabasePool,
  databaseUrl: string,
  url: string,
  readingKey: string,
  file: string,
): Readonly<Record<Exclude<Neighbor, "all">, Work>> => {
  const context = { clock: systemClock, db: createBulkPool(db) };
  return {
    list: (signal) => readStream(url, { signal, headers: { Authorization: readingKey } }, () => {}),
    import: importHistory(databaseUrl, file),
    planting: (aborted) =>
      createPlantingOrders({ ...context, planting: createTestPlanting() }, aborted),
  };
};

/** Measures POSTs while work is done. Work that fails ends the measurement. */
const measureBeside = async (
  works: readonly Work[],
  measure: () => Promise<LoadReport>,
): Promise<LoadReport> => {
  const ended = new AbortController();
  const running = Promise.all(works.map((work) => repeat(work, ended.signal)));
  await Promise.race([delay(works.length === 0 ? 0 : START_MS), running]);
  const measured = measure();
  try {
    return await Promise.race([measured, running.then(() => measured)]);
  } finally {
    ended.abort();
    await running;
  }
};

/**
 * Compares the POSTs of many accounts, at a steady rate, with the same while another account's list is read, history
 * is imported and planting orders are created: each alone, and all together.
 */
export const mixed: Benchmark = async ({ services, sizes, log }) => {
  const databaseUrl = await services.createDatabase("mixed");
  const [reading = ""] = accountIds(1);
  const [readingKey = ""] = await createAccounts(databaseUrl, [reading]);
  await fillRegistrations(databaseUrl, reading, sizes.listed);
  const keys = await createAccounts(databaseUrl, accountIds(WRITING_ACCOUNTS));
  const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
  const db = await openPool(databaseUrl);
  const file = await writeHistory(services.folder);
  const works = createWorks(db, databaseUrl, `${api.url}/plant/trees`, readingKey, file);
  const measure = (names: readonly (keyof typeof works)[]): Promise<LoadReport> =>
    measureBeside(
      names.map((name) => works[name]),
      () =>
        runLoad(api, {
          url: api.url,
          requests: composeRegistrations(api.url, keys),
          connections: sizes.connections,
          requestsPerSecond: sizes.rate,
          durationMs: sizes.roundMs,
        }),
    );
  const results = [];
  for (const name of sizes.beside) {
    const names = name === "all" ? NEIGHBORS.filter((each) => each !== "all") : [name];
    const rounds = await repeatUndisturbed(
      sizes.rounds,
      async () => ({ alone: await measure([]), beside: await measure(names) }),
      ({ alone, beside }) =>
        `POST beside ${names.join(", ")}: ${describeLoad(beside)}; alone ${describeLoad(alone)}`,
      log,
    );
    results.push(
      compareRounds(`POST, ${sizes.rate}/s, beside ${name}: p99 in ms, and alone`, rounds, {
        value: ({ beside }) => beside.p99Ms,
        baseline: ({ alone }) => alone.p99Ms,
        digits: 1,
        goal: { atMost: 2 },
      }),
    );
  }
  await api.stop();
  await db.end();
  await services.dropDatabase("mixed");
  return results;
};
