import { Client } from "pg";
import type { DatabasePool } from "slonik";
import { openInput, sha256Of } from "../cli/input/openInput.ts";
import { readTextLines } from "../cli/input/readLines.ts";
import { openPool } from "../db/pools/pool.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { systemClock } from "../runtime/clock.ts";
import { createCatalogue } from "../modules/charities/createCatalogue.ts";
import { importCharities } from "../modules/charities/importCharities.ts";
import { createAccounts } from "./support/createAccounts.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { median, percentile } from "./support/statistics.ts";

export type CharitySizes = {
  readonly rows: number;
  readonly files: readonly string[];
  readonly searches: number;
};

/** A key may send 20 requests a second. With this many keys in rotation, one sequential client stays below that. */
const KEYS = 40;
const EXTRACTED_ON = "2026-01-01";
const DATABASE_GOAL_MS = 500;

const SEARCHES: readonly (readonly [string, string])[] = [
  ["two words", "food bank"],
  ["parts of two words", "healt car"],
  ["one common word", "foundation"],
  ["the beginning of a common word", "foundat"],
  ["a typo", "humane socety"],
  ["nothing found", "xqzwv kkjjq"],
];

/** Generates names from few words, which therefore occur more often than in the real files. */
const FILL = `
  INSERT INTO charity (ein, name, city, state, ntee, subsection, deductibility, income_code, extracted_on)
  SELECT
    to_char(100000000 + number, 'FM000000000'),
    upper(concat_ws(' ',
      words[(1 + (number * 7919) % 20)::integer], substr(md5(number::text), 1, 6), words[(1 + (number * 104729) % 20)::integer],
      words[(1 + (number / 20) % 20)::integer]
    )),
    'SPRINGFIELD', 'VT', 'K31', '03', '1', ('x' || substr(md5(number::text), 7, 7))::bit(28)::integer % 10, '${EXTRACTED_ON}'
  FROM
    generate_series(1, $1::bigint) AS number,
    (SELECT string_to_array(
      'food bank humane society foundation church school friends fund trust club center health care arts music youth ' ||
      'land water hope', ' '
    ) AS words) AS vocabulary
  ON CONFLICT DO NOTHING`;

/** Creates the indexes after the rows, which takes half the time. */
const fillGenerated = async (client: Client, rows: number): Promise<void> => {
  const { rows: indexes } = await client.query<{ name: string; definition: string }>(`
    SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition
    FROM pg_index
    WHERE indrelid = 'charity'::regclass AND NOT indisunique
  `);
  for (const { name } of indexes) {
    await client.query(`DROP INDEX ${name}`);
  }
  await client.query(FILL, [rows]);
  await client.query("SET maintenance_work_mem = '512MB'");
  for (const { definition } of indexes) {
    await client.query(definition);
  }
};

const fillCatalogue = async (
  databaseUrl: string,
  { rows, files }: CharitySizes,
): Promise<number> => {
  const client = new Client({ connectionString: databaseUrl });
  const db = await openPool(databaseUrl);
  await client.connect();
  try {
    for (const path of files) {
      const { bytes } = await openInput(path, process);
      await importCharities(
        { db, clock: systemClock, actor: SERVICE },
        { sha256: await sha256Of(path), extractedOn: EXTRACTED_ON },
        readTextLines(bytes),
        { onBadLine: () => undefined, onProgress: () => undefined },
      );
    }
    if (files.length === 0) {
      await fillGenerated(client, rows);
    }
    await client.query("VACUUM ANALYZE charity");
    // Otherwise, the searches would wait for the disk that stores the new rows.
    await client.query("CHECKPOINT");
    const { rows: counted } = await client.query<{ count: string }>(
      "SELECT count(*) FROM charity WHERE eligible",
    );
    return Number(counted[0]?.count);
  } finally {
    await client.end();
    await db.end();
  }
};

const describeSizes = async (client: Client): Promise<string> => {
  const { rows } = await client.query<{ name: string; mib: string }>(`
    SELECT oid::regclass::text AS name, round(pg_relation_size(oid) / 1048576.0)::text AS mib
    FROM pg_class
    WHERE oid = 'charity'::regclass
      OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'charity'::regclass)
    ORDER BY pg_relation_size(oid) DESC
  `);
  return rows.map(({ name, mib }) => `${name} ${mib} MiB`).join(", ");
};

const timeMs = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAtMs = performance.now();
  await work();
  return performance.now() - startedAtMs;
};

/** The minimum that a search needs: one query for the first page of the names that have all words. */
const searchBySql = (client: Client, name: string): Promise<unknown> =>
  client.query(
    `SELECT ein, name FROM charity
     WHERE eligible AND array_to_tsvector(string_to_array(btrim(search_text), ' ')) @@ $1::tsquery
     ORDER BY length(name), income_code DESC, ein LIMIT 20`,
    [name.split(" ").join(" & ")],
  );

const search = async (url: string, name: string, key: string): Promise<void> => {
  const response = await fetch(
    `${url}/charities/search?${new URLSearchParams({ name }).toString()}`,
    {
      headers: { authorization: key },
    },
  );
  if (!response.ok) {
    throw new Error(`A search returned status ${response.status}.`);
  }
  await response.arrayBuffer();
};

const describe = (ascending: readonly number[]): string =>
  `${median(ascending).toFixed(1)} ms, p99 ${percentile(ascending, 0.99).toFixed(1)} ms`;

/** The queries of a search, without the API. */
const searchCatalogue = async (db: DatabasePool, name: string): Promise<void> => {
  await createCatalogue({ db, searches: db }).search(
    { name, ein: null, page: 1, pageSize: 20 },
    AbortSignal.timeout(60_000),
  );
};

/** Searches in sequence, alternating between the API, the queries of the API, and plain SQL. */
export const measureCharitySearch = async (
  services: Services,
  sizes: CharitySizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("charities");
  const charities = await fillCatalogue(databaseUrl, sizes);
  report(`charities: ${charities} eligible`);
  const ids = Array.from({ length: KEYS }, () => crypto.randomUUID());
  const keys = await createAccounts(databaseUrl, ids);
  const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
  const db = await openPool(databaseUrl, 1);
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  report(`charities: ${await describeSizes(client)}`);
  try {
    const results: Result[] = [];
    const catalogue = `${charities.toLocaleString("en-US")} charities`;
    for (const [what, name] of SEARCHES) {
      const requests: number[] = [];
      const queries: number[] = [];
      const bare: number[] = [];
      for (let round = 0; round < sizes.searches / SEARCHES.length; round += 1) {
        const key = keys[round % KEYS] ?? "";
        queries.push(await timeMs(() => searchCatalogue(db, name)));
        requests.push(await timeMs(() => search(api.url, name, key)));
        bare.push(await timeMs(() => searchBySql(client, name)));
      }
      for (const times of [requests, queries, bare]) {
        times.sort((a, b) => a - b);
      }
      report(`charities: ${what} done`);
      results.push(
        {
          what: `Search of ${catalogue} at the database: ${what}, compared with plain SQL`,
          measured: describe(queries),
          baseline: describe(bare),
          ratio: (median(queries) / median(bare)).toFixed(1),
          goal: `p99 ${DATABASE_GOAL_MS} ms`,
          isReached: percentile(queries, 0.99) <= DATABASE_GOAL_MS,
        },
        {
          what: `Search of ${catalogue} through the API: ${what}, compared with its queries`,
          measured: describe(requests),
          baseline: describe(queries),
          ratio: (median(requests) / median(queries)).toFixed(1),
          goal: "",
          isReached: null,
        },
      );
    }
    return results;
  } finally {
    await client.end();
    await db.end();
    await api.stop();
    await services.dropDatabase("charities");
  }
};
