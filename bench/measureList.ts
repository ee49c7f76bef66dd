import { spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { findCommand } from "./support/findCommand.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { readResidentBytes } from "./support/readResidentBytes.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { describeSpread, median } from "./support/statistics.ts";

export type ListSizes = { readonly registrations: number; readonly rounds: number };

const SPAN_SECONDS = 30 * 24 * 3600;
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

/** Reads the whole list while sampling the memory of the API process. */
const fetchList = async (url: string, key: string, pid: number): Promise<Fetched> => {
  const before = readResidentBytes(pid);
  let peak = before;
  const sampling = setInterval(() => {
    peak = Math.max(peak, readResidentBytes(pid));
  }, SAMPLE_MS);
  const startedAtMs = performance.now();
  const call = request(url, { headers: { Authorization: key } });
  call.end();
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- events are not typed; `response` has one value.
  const [response] = (await once(call, "response")) as [IncomingMessage];
  let bytes = 0;
  let tail = "";
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    tail = chunk.subarray(-2).toString();
  }
  clearInterval(sampling);
  if (response.statusCode !== 200 || tail !== "]}") {
    throw new Error(`The list ended with ${tail} and status ${response.statusCode}.`);
  }
  return {
    seconds: (performance.now() - startedAtMs) / 1000,
    bytes,
    grownBytes: peak - before,
  };
};

/** Returns the seconds that psql needs to copy the same list, null if psql is not installed. */
const copyList = async (databaseUrl: string, accountId: string): Promise<number | null> => {
  const psql = await findCommand("psql");
  if (psql === null) {
    return null;
  }
  const startedAtMs = performance.now();
  const child = spawn(psql, ["--no-psqlrc", "--command", copyStatement(accountId), databaseUrl], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = await once(child, "exit");
  if (code !== 0) {
    throw new Error(`psql exited with code ${String(code)}.`);
  }
  return (performance.now() - startedAtMs) / 1000;
};

/** Measures GET of a whole list: the API's memory growth, and its speed compared with psql's COPY of the same JSON. */
export const measureList = async (
  services: Services,
  { registrations, rounds }: ListSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("list");
  const accountId = crypto.randomUUID();
  const [key = ""] = await createAccounts(databaseUrl, [accountId]);
  await fillRegistrations(databaseUrl, {
    accountId,
    count: registrations,
    spanSeconds: SPAN_SECONDS,
    reported: true,
  });
  // A new process each time, because memory left over from one list would hide the growth by the next.
  const fetchFromNewProcess = async (): Promise<Fetched> => {
    const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
    const url = `${api.url}/plant/trees`;
    await fetchList(`${url}?created_at=2100-01-01`, key, api.pid);
    const fetched = await fetchList(url, key, api.pid);
    await api.stop();
    return fetched;
  };
  const results = await repeatUndisturbed(
    rounds,
    async () => ({
      fetched: await fetchFromNewProcess(),
      copySeconds: await copyList(databaseUrl, accountId),
    }),
    ({ fetched, copySeconds }, others) =>
      report(
        `GET of ${registrations}: ${fetched.seconds.toFixed(1)} s for ${(fetched.bytes / MIB).toFixed(0)} MiB, ` +
          `${(fetched.grownBytes / MIB).toFixed(0)} MiB of memory growth; ` +
          `COPY ${copySeconds?.toFixed(1) ?? "-"} s; other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
      ),
  );
  await services.dropDatabase("list");
  const grownMib = Math.max(...results.map(({ fetched }) => fetched.grownBytes / MIB));
  const copies = results.flatMap(({ copySeconds }) => copySeconds ?? []);
  const speed = median(
    results.map(({ fetched, copySeconds }) => (copySeconds ?? Number.NaN) / fetched.seconds),
  );
  const what = `GET of ${registrations} registrations`;
  return [
    {
      what: `${what}: memory`,
      measured: `${grownMib.toFixed(0)} MiB at most`,
      baseline: `${((results[0]?.fetched.bytes ?? 0) / MIB).toFixed(0)} MiB of JSON`,
      ratio: "",
      goal: "under 128 MiB",
      isReached: Number.isNaN(grownMib) ? null : grownMib < 128,
    },
    {
      what: `${what}: speed compared with psql's COPY`,
      measured: `${describeSpread(
        results.map(({ fetched }) => fetched.seconds),
        1,
      )} s`,
      baseline: copies.length === 0 ? "psql not installed" : `${describeSpread(copies, 1)} s`,
      ratio: copies.length === 0 ? "" : speed.toFixed(2),
      goal: "at least 0.50",
      isReached: copies.length === 0 ? null : speed >= 0.5,
    },
  ];
};
