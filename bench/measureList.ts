import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { commandPath } from "./support/commandPath.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { describeSpread, median } from "./support/statistics.ts";

export type ListSizes = { readonly registrations: number; readonly rounds: number };

const SPAN_SECONDS = 30 * 24 * 3600;
const SAMPLE_MS = 50;
const MIB = 1024 * 1024;

/** The same objects as the list's, made by the same functions, in the same order, without paging. */
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

/** Bytes of memory that a process holds, NaN on systems that do not tell. */
const readResident = (pid: number): number => {
  if (process.platform !== "linux") {
    return Number.NaN;
  }
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(?<kib>\d+) kB/mu.exec(status)?.groups?.["kib"]) * 1024;
};

type Fetched = {
  readonly seconds: number;
  readonly bytes: number;
  readonly grownBytes: number;
};

/** Reads the whole list and watches the API's memory meanwhile. */
const fetchList = async (url: string, key: string, pid: number): Promise<Fetched> => {
  const before = readResident(pid);
  let most = before;
  const sampling = setInterval(() => {
    most = Math.max(most, readResident(pid));
  }, SAMPLE_MS);
  const startedAtMs = performance.now();
  const call = request(url, { headers: { Authorization: key } });
  call.end();
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- events are not typed; a response has this one value.
  const [response] = (await once(call, "response")) as [IncomingMessage];
  let bytes = 0;
  let tail = "";
  for await (const piece of response as AsyncIterable<Buffer>) {
    bytes += piece.length;
    tail = piece.subarray(-2).toString();
  }
  clearInterval(sampling);
  if (response.statusCode !== 200 || tail !== "]}") {
    throw new Error(`The list ended with ${tail} and status ${response.statusCode}.`);
  }
  return {
    seconds: (performance.now() - startedAtMs) / 1000,
    bytes,
    grownBytes: most - before,
  };
};

/** @returns seconds that psql takes for the same text; null where psql is missing */
const copyList = async (databaseUrl: string, accountId: string): Promise<number | null> => {
  const psql = await commandPath("psql");
  if (psql === null) {
    return null;
  }
  const startedAtMs = performance.now();
  const child = spawn(psql, ["--no-psqlrc", "--command", copyStatement(accountId), databaseUrl], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = await once(child, "exit");
  if (code !== 0) {
    throw new Error(`psql ended with ${String(code)}.`);
  }
  return (performance.now() - startedAtMs) / 1000;
};

/** GET of a list without pages: the API's memory, and its speed beside psql's COPY of the same JSON. */
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
  // A fresh process each time: what one list has left behind would hide what the next one takes.
  const fetchFromFresh = async (): Promise<Fetched> => {
    const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
    const url = `${api.address}/plant/trees`;
    await fetchList(`${url}?created_at=2100-01-01`, key, api.pid);
    const fetched = await fetchList(url, key, api.pid);
    await api.stop();
    return fetched;
  };
  const kept = await repeatUndisturbed(
    rounds,
    async () => ({
      fetched: await fetchFromFresh(),
      copySeconds: await copyList(databaseUrl, accountId),
    }),
    ({ fetched, copySeconds }, others) =>
      report(
        `GET of ${registrations}: ${fetched.seconds.toFixed(1)} s for ${(fetched.bytes / MIB).toFixed(0)} MiB, ` +
          `${(fetched.grownBytes / MIB).toFixed(0)} MiB more memory; ` +
          `COPY ${copySeconds?.toFixed(1) ?? "-"} s; others ${((others ?? 0) * 100).toFixed(0)} % of the machine`,
      ),
  );
  await services.dropDatabase("list");
  const grownMib = Math.max(...kept.map(({ fetched }) => fetched.grownBytes / MIB));
  const copies = kept.flatMap(({ copySeconds }) => copySeconds ?? []);
  const speed = median(
    kept.map(({ fetched, copySeconds }) => (copySeconds ?? Number.NaN) / fetched.seconds),
  );
  const what = `GET of ${registrations} registrations`;
  return [
    {
      what: `${what}: memory`,
      measured: `${grownMib.toFixed(0)} MiB at most`,
      baseline: `${((kept[0]?.fetched.bytes ?? 0) / MIB).toFixed(0)} MiB of JSON`,
      ratio: "",
      goal: "under 64 MiB",
      reached: Number.isNaN(grownMib) ? null : grownMib < 64,
    },
    {
      what: `${what}: speed to psql's COPY`,
      measured: `${describeSpread(
        kept.map(({ fetched }) => fetched.seconds),
        1,
      )} s`,
      baseline: copies.length === 0 ? "psql is missing" : `${describeSpread(copies, 1)} s`,
      ratio: copies.length === 0 ? "" : speed.toFixed(2),
      goal: "at least 0.50",
      reached: copies.length === 0 ? null : speed >= 0.5,
    },
  ];
};
