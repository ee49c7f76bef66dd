import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Benchmark } from "./support/benchmark.ts";
import { compareRounds } from "./support/compareRounds.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { readStream } from "./support/readStream.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";

const SAMPLE_MS = 50;
const MIB = 1024 * 1024;

/** Selects the same objects as the list, with the same functions and in the same order, without paging. */
const copyStatement = (accountId: string): string => `
  COPY (
    SELECT json_build_object(
      'id', id,
      'count', count,
      'fractional_count', fractional_count,
      'created_at', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'idempotency_key', coalesce(idempotency_key, ''),
      'metadata', metadata,
      'attribution', attribution,
      'refunded', refunded_count > 0
    )
    FROM registration
    WHERE account_id = '${accountId}' AND mode = 'live' AND kind = 'tree'
    ORDER BY created_at DESC, id DESC
  ) TO STDOUT`;

type Fetched = {
  readonly seconds: number;
  readonly bytes: number;
  readonly grownBytes: number;
};

/** Returns the resident memory of a process in bytes, NaN if the system does not report it. */
const readResidentBytes = (pid: number): number => {
  if (process.platform !== "linux") {
    return Number.NaN;
  }
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(?<kib>\d+) kB/mu.exec(status)?.groups?.["kib"]) * 1024;
};

/** Reads the whole list while sampling the memory of the API process. */
const fetchList = async (url: string, key: string, pid: number): Promise<Fetched> => {
  const before = readResidentBytes(pid);
  let peak = before;
  const sampling = setInterval(() => {
    peak = Math.max(peak, readResidentBytes(pid));
  }, SAMPLE_MS);
  const startedAtMs = performance.now();
  let bytes = 0;
  let tail = "";
  await readStream(url, { headers: { Authorization: key } }, (chunk) => {
    bytes += chunk.length;
    tail = chunk.subarray(-2).toString();
  });
  clearInterval(sampling);
  if (tail !== "]}") {
    throw new Error(`The list ended with ${tail}.`);
  }
  return { seconds: (performance.now() - startedAtMs) / 1000, bytes, grownBytes: peak - before };
};

/** Returns the seconds that psql needs to copy the same list. */
const copyList = async (databaseUrl: string, accountId: string): Promise<number> => {
  const startedAtMs = performance.now();
  const child = spawn("psql", ["--no-psqlrc", "--command", copyStatement(accountId), databaseUrl], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = await once(child, "exit");
  if (code !== 0) {
    throw new Error(`psql exited with code ${String(code)}.`);
  }
  return (performance.now() - startedAtMs) / 1000;
};

/** Measures GET of a whole list: the API's memory growth, and its speed compared with psql's COPY of the same JSON. */
export const list: Benchmark = async ({ services, sizes, log }) => {
  const databaseUrl = await services.createDatabase("list");
  const accountId = crypto.randomUUID();
  const [key = ""] = await createAccounts(databaseUrl, [accountId]);
  await fillRegistrations(databaseUrl, accountId, sizes.listed);
  // A new process each time, because memory left over from one list would hide the growth by the next.
  const fetchFromNewProcess = async (): Promise<Fetched> => {
    const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
    const url = `${api.url}/plant/trees`;
    await fetchList(`${url}?created_at=2100-01-01`, key, api.pid);
    const fetched = await fetchList(url, key, api.pid);
    await api.stop();
    return fetched;
  };
  const what = `GET of ${sizes.listed} registrations`;
  const rounds = await repeatUndisturbed(
    sizes.rounds,
    async () => ({
      ...(await fetchFromNewProcess()),
      copySeconds: await copyList(databaseUrl, accountId),
    }),
    ({ seconds, bytes, grownBytes, copySeconds }) =>
      `${what}: ${seconds.toFixed(1)} s for ${(bytes / MIB).toFixed(0)} MiB, ` +
      `${(grownBytes / MIB).toFixed(0)} MiB of memory growth; COPY ${copySeconds.toFixed(1)} s`,
    log,
  );
  await services.dropDatabase("list");
  return [
    compareRounds(`${what}: MiB by which the API grows, and MiB of JSON`, rounds, {
      value: ({ grownBytes }) => grownBytes / MIB,
      baseline: ({ bytes }) => bytes / MIB,
      goal: { below: 128 },
    }),
    compareRounds(`${what}: lists a second, and of psql's COPY`, rounds, {
      value: ({ seconds }) => 1 / seconds,
      baseline: ({ copySeconds }) => 1 / copySeconds,
      digits: 2,
      goal: { atLeast: 0.5 },
    }),
  ];
};
