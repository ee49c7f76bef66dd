import { Client } from "pg";
import { openPool } from "../db/pools/pool.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { systemClock } from "../runtime/clock.ts";
import { findRecords } from "../modules/support/findRecords.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { describeSpread, median } from "./support/statistics.ts";

export type FindSizes = {
  readonly accounts: number;
  readonly registrations: number;
  readonly rounds: number;
};

/** A search is a command that a person waits for. */
const LONGEST_MS = 2000;
const LIMIT = 20;

/**
 * Inserts accounts, of which every tenth is a store, and registrations: half of them of the first account, so that a search
 * that reads all of an account's registrations would be seen.
 */
const fill = async (
  databaseUrl: string,
  { accounts, registrations }: FindSizes,
): Promise<readonly string[]> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("SET session_replication_role = replica");
    await client.query("SET synchronous_commit = off");
    const { rows } = await client.query<{ id: string }>(
      `INSERT INTO account (id, type, name, fractional_counting, billing_day, created_at)
       SELECT uuidv7(), CASE WHEN number % 10 = 9 THEN 'store' ELSE 'organization' END, 'Account ' || number, false, 1, now()
       FROM generate_series(0, $1::bigint - 1) AS number
       RETURNING id`,
      [accounts],
    );
    const ids = rows.map(({ id }) => id);
    await client.query(
      `INSERT INTO registration (
         id, account_id, mode, kind, count, created_at, idempotency_key, attribution, order_id, customer_name,
         customer_email, customer_id, unit_price_cents
       )
       SELECT
         uuidv7(), ($1::uuid[])[account + 1], 'live', 'tree', 1, now() - make_interval(secs => number), 'fill-' || number,
         'campaign-' || number % 1000,
         CASE WHEN is_store THEN '#' || number END,
         CASE WHEN is_store THEN 'Customer ' || md5(number::text) END,
         CASE WHEN is_store THEN number || '@example.com' END,
         CASE WHEN is_store THEN 'customer-' || number END,
         CASE WHEN is_store THEN 50 END
       FROM generate_series(0, $2::bigint - 1) AS number
       CROSS JOIN LATERAL (
         SELECT CASE WHEN number % 2 = 0 THEN 0 ELSE (number / 2) % cardinality($1::uuid[]) END AS account
       ) AS chosen
       CROSS JOIN LATERAL (SELECT account % 10 = 9 AS is_store) AS kind`,
      [ids, registrations],
    );
    await client.query("VACUUM (ANALYZE) registration, account");
    return ids;
  } finally {
    await client.end();
  }
};

/** Measures `impact find` over all accounts, compared with one account. */
export const measureFind = async (
  { createDatabase, dropDatabase }: Services,
  sizes: FindSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await createDatabase("find");
  report(`filling ${sizes.registrations} registrations of ${sizes.accounts} accounts`);
  const [first = ""] = await fill(databaseUrl, sizes);
  const db = await openPool(databaseUrl);
  const context = { db, clock: systemClock, actor: SERVICE };
  const time = async (text: string, accountId: string | null): Promise<readonly number[]> => {
    const times: number[] = [];
    for (let round = 0; round < sizes.rounds; round += 1) {
      const startedAtMs = performance.now();
      await findRecords(context, { text, accountId, limit: LIMIT });
      times.push(performance.now() - startedAtMs);
    }
    return times;
  };
  // The last odd number of a store's registrations.
  const ofStore = sizes.accounts * 2 - 1;
  const texts: readonly (readonly [string, string])[] = [
    ["a text that nothing has", "nothing has this text"],
    ["an idempotency key", `fill-${ofStore}`],
    ["an attribution of many registrations", "campaign-7"],
    ["an order", `#${ofStore}`],
    ["a customer's email", `${ofStore}@example.com`],
    ["a part of many names", "Customer"],
  ];
  const results: Result[] = [];
  try {
    for (const [what, text] of texts) {
      report(what);
      const all = await time(text, null);
      const one = await time(text, first);
      results.push({
        what: `impact find, ${what}`,
        measured: `${describeSpread(all, 0)} ms`,
        baseline: `${describeSpread(one, 0)} ms in one account`,
        ratio: "",
        goal: `at most ${LONGEST_MS} ms`,
        isReached: median(all) <= LONGEST_MS,
      });
    }
  } finally {
    await db.end();
    await dropDatabase("find");
  }
  return results;
};
