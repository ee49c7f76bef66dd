import { request } from "node:http";
import type { ClientRequest } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { createAccounts } from "./support/createAccounts.ts";
import { readResidentBytes } from "./support/readResidentBytes.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";

const ACCOUNTS = 10;
const LISTS_PER_ACCOUNT = 5;
const MIB = 1024 * 1024;
const SAMPLES = 20;
const SAMPLE_MS = 200;

/** 16 KiB of JSON each. PostgreSQL writes 1e300 as 301 digits, so the first becomes 700 KiB. */
const METADATA: readonly (readonly [string, number, object])[] = [
  ["the largest JSON", 60, { a: Array.from({ length: 2300 }, () => 1e300) }],
  ["long texts", 2000, { a: "x".repeat(16_000) }],
];

/** Requests a list and reads none of it. Resolves when the response begins. */
const openList = (url: string, key: string): Promise<ClientRequest> =>
  new Promise((resolve, reject) => {
    const call = request(url, { agent: false, headers: { Authorization: key } });
    call.on("error", reject);
    call.on("response", (response) => {
      response.pause();
      response.on("error", () => undefined);
      if (response.statusCode === 200) {
        resolve(call);
      } else {
        reject(new Error(`The list has status ${response.statusCode}.`));
      }
    });
    call.end();
  });

/** Measures the memory that lists of clients take which stop reading. */
export const measureStalled = async (
  services: Services,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const results: Result[] = [];
  for (const [name, rows, metadata] of METADATA) {
    const databaseUrl = await services.createDatabase("stalled");
    const accountIds = Array.from({ length: ACCOUNTS }, () => crypto.randomUUID());
    const keys = await createAccounts(databaseUrl, accountIds);
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    for (const accountId of accountIds) {
      await client.query(
        `INSERT INTO registration (id, account_id, mode, kind, count, created_at, metadata, json_bytes)
         SELECT uuidv7(), $1, 'live', 'tree', 1, now() - number * interval '1 second', $2::jsonb,
           length($2::jsonb::text) + 300
         FROM generate_series(1, $3::integer) AS number`,
        [accountId, JSON.stringify(metadata), rows],
      );
    }
    await client.end();
    const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
    const url = `${api.url}/plant/trees`;
    // What the first requests of a process load is not the cost of those that stall.
    for (const key of keys) {
      await (
        await fetch(`${url}?created_at=2100-01-01`, { headers: { Authorization: key } })
      ).text();
    }
    const before = readResidentBytes(api.pid);
    let peak = before;
    const calls: ClientRequest[] = [];
    for (let list = 0; list < LISTS_PER_ACCOUNT; list += 1) {
      for (const key of keys) {
        calls.push(await openList(url, key));
        peak = Math.max(peak, readResidentBytes(api.pid));
      }
    }
    for (let sample = 0; sample < SAMPLES; sample += 1) {
      await delay(SAMPLE_MS);
      peak = Math.max(peak, readResidentBytes(api.pid));
    }
    for (const call of calls) {
      call.on("error", () => undefined);
      call.destroy();
    }
    await api.stop();
    await services.dropDatabase("stalled");
    const grownMib = (peak - before) / MIB;
    report(`${calls.length} stalled lists of ${name}: ${grownMib.toFixed(0)} MiB`);
    results.push({
      what: `${calls.length} stalled lists of ${name}: memory`,
      measured: `${grownMib.toFixed(0)} MiB at most`,
      baseline: `${(before / MIB).toFixed(0)} MiB before`,
      ratio: "",
      goal: "under 64 MiB",
      isReached: Number.isNaN(grownMib) ? null : grownMib < 64,
    });
  }
  return results;
};
