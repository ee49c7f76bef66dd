import { Client } from "pg";
import type { DatabasePool } from "slonik";
import { findAccount } from "../modules/accounts/accounts.sql.ts";
import { openPool } from "../db/pools/pool.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { latestFoldTime } from "../modules/billing/folding/foldUsage.rules.ts";
import { systemClock } from "../runtime/clock.ts";
import { issueKey } from "../modules/accounts/issueKey.ts";
import { foldUsage } from "../modules/billing/folding/foldUsage.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillYears } from "./support/fillYears.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import { runLoad } from "./support/runLoad.ts";
import { pgbenchAccountId } from "./support/runPgbench.ts";
import type { Program, Services } from "./support/startServices.ts";
import { describeSpread } from "./support/statistics.ts";
import type { Reads } from "./support/createYearReads.ts";
import { createYearReads } from "./support/createYearReads.ts";

export const YEAR_STEPS = ["fill", "measure", "fold"] as const;
export type YearStep = (typeof YEAR_STEPS)[number];

export type YearSizes = {
  readonly registrations: number;
  readonly steps: readonly YearStep[];
  /** After it, filling and folding begin no further account. */
  readonly budgetMs: number;
  readonly connections: number;
  readonly rounds: number;
  readonly roundMs: number;
};

const ACCOUNTS = 20;
const DAY_SECONDS = 86_400;
const YEARS_SECONDS = 3 * 365 * DAY_SECONDS;
/** Longer than a reconciliation repeats. */
const YOUNG_SECONDS = 40 * DAY_SECONDS;
const PER_SECOND = 4;
const WARM_UP_MS = 1500;
/** Registrations that are read by their id. */
const READ_IDS = 1000;
/** Highest growth of a cost that counts as flat. */
const FLAT = 1.25;

type Stage = {
  readonly name: string;
  readonly url: string;
  readonly db: DatabasePool;
  readonly registrations: number;
  readonly spanSeconds: number;
};

const openStage = async (
  services: Services,
  name: string,
  registrations: number,
  spanSeconds: number,
): Promise<Stage> => {
  const url = await services.openDatabase(name);
  return { name, url, db: await openPool(url, 10, 600_000), registrations, spanSeconds };
};

const query = async <Row extends object>(url: string, text: string): Promise<readonly Row[]> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
};

/** What makes filling faster, and would be unsafe or unfair later. */
const FILLING = ["full_page_writes = off", "autovacuum = off", "checkpoint_timeout = '30min'"];

/** Replaces the settings of the server. */
const setServer = async (url: string, settings: readonly string[]): Promise<void> => {
  await query(url, "ALTER SYSTEM RESET ALL");
  for (const setting of settings) {
    await query(url, `ALTER SYSTEM SET ${setting}`);
  }
  await query(url, "SELECT pg_reload_conf()");
};

/** Fills the accounts that are not filled yet, two at a time, and returns how many are left. */
const fill = async (
  { url, db, name, registrations, spanSeconds }: Stage,
  budgetMs: number,
  report: (line: string) => void,
): Promise<number> => {
  const startedAtMs = performance.now();
  const missing: string[] = [];
  for (let number = 1; number <= ACCOUNTS; number += 1) {
    if ((await findAccount(db, pgbenchAccountId(number))) === null) {
      missing.push(pgbenchAccountId(number));
    }
  }
  if (missing.length > 0) {
    await setServer(url, FILLING);
  }
  const queue = missing.values();
  const fillNext = async (): Promise<void> => {
    for (const accountId of queue) {
      const beganAtMs = performance.now();
      await fillYears(url, {
        accountId,
        registrations: Math.round(registrations / ACCOUNTS / PER_SECOND) * PER_SECOND,
        spanSeconds,
        perSecond: PER_SECOND,
      });
      // Last, so that an account that exists has been filled.
      await createAccounts(url, [accountId]);
      report(
        `${name}: filled an account in ${((performance.now() - beganAtMs) / 1000).toFixed(0)} s`,
      );
      if (performance.now() - startedAtMs > budgetMs) {
        return;
      }
    }
  };
  await Promise.all([fillNext(), fillNext()]);
  const left = [...queue].length;
  await setServer(url, []);
  if (left === 0) {
    await query(url, "VACUUM (ANALYZE)");
  }
  return left;
};

const TABLES = [
  "registration",
  "usage_fact",
  "meter_event",
  "folded_usage",
  "ledger_usage",
] as const;

const readSizes = async ({ url }: Stage): Promise<Readonly<Record<string, readonly number[]>>> => {
  const rows = await query<{ name: string; heap: string; indexes: string }>(
    url,
    `SELECT relname AS name, pg_table_size(oid) AS heap, pg_indexes_size(oid) AS indexes
     FROM pg_class
     WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
  );
  return Object.fromEntries(
    rows.map(({ name, heap, indexes }) => [name, [Number(heap), Number(indexes)]]),
  );
};

const listSizes = async (stage: Stage, when: string): Promise<readonly Result[]> => {
  const sizes = await readSizes(stage);
  const [row] = await query<{ count: string }>(stage.url, "SELECT count(*) FROM registration");
  const count = Number(row?.count);
  return TABLES.map((table) => {
    const [heap = 0, indexes = 0] = sizes[table] ?? [];
    return {
      what: `${table}, ${when}: bytes a registration of ${count} (tables + indexes)`,
      measured: `${((heap + indexes) / count).toFixed(1)} (${(heap / count).toFixed(1)} + ${(indexes / count).toFixed(1)})`,
      baseline: "-",
      ratio: "-",
      goal: "-",
      isReached: null,
    };
  });
};

const listIds = async ({ url }: Stage): Promise<readonly string[]> => {
  const rows = await query<{ id: string }>(
    url,
    `SELECT id FROM registration
     WHERE account_id = '${pgbenchAccountId(1)}' AND created_at < now() - interval '30 days'
     ORDER BY created_at DESC
     LIMIT ${READ_IDS}`,
  );
  return rows.map(({ id }) => id);
};

const issueTestKey = async ({ db }: Stage): Promise<string> => {
  const account = await findAccount(db, pgbenchAccountId(1));
  if (!account) {
    throw new RangeError("The database is not filled. Run the step fill first.");
  }
  const { key } = await issueKey({ db, clock: systemClock, actor: SERVICE }, account, "live");
  return key;
};

const measure = async (
  services: Services,
  stages: readonly [Stage, Stage],
  { connections, rounds, roundMs }: YearSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const opened: { readonly key: string; readonly api: Program; readonly reads: Reads }[] = [];
  for (const stage of stages) {
    const key = await issueTestKey(stage);
    const api = await services.startProgram("api/main.ts", {
      DATABASE_URL: stage.url,
    });
    opened.push({
      key,
      api,
      reads: await createYearReads(stage.db, pgbenchAccountId(1), {
        apiUrl: api.url,
        key,
        ids: await listIds(stage),
        oldestDays: stage.spanSeconds / DAY_SECONDS - 2,
      }),
    });
  }
  const [old, young] = opened;
  if (!old || !young) {
    return [];
  }
  const results: Result[] = [];
  for (const [what, readOld] of old.reads) {
    const readYoung = young.reads.get(what) ?? readOld;
    const times: { readonly youngMs: number; readonly oldMs: number }[] = [];
    for (let round = 0; round < rounds; round += 1) {
      times.push({ youngMs: await readYoung(), oldMs: await readOld() });
    }
    const result = compareRounds(`${what}: ms with 3 years, compared with 40 days`, times, {
      value: ({ oldMs }) => oldMs,
      baseline: ({ youngMs }) => youngMs,
      digits: 2,
      goal: { atMost: FLAT },
    });
    report(`${what}: ${result.measured} and ${result.baseline} ms`);
    results.push(result);
  }
  const posts = await repeatUndisturbed(
    rounds,
    async () => {
      const rates: number[] = [];
      for (const { api, key } of opened) {
        const { requestsPerSecond } = await runLoad({
          url: `${api.url}/plant/trees`,
          keys: [key],
          connections,
          warmUpMs: WARM_UP_MS,
          durationMs: roundMs,
        });
        rates.push(requestsPerSecond);
      }
      return rates;
    },
    (rates, others) =>
      report(
        `POST: ${rates.map((rate) => rate.toFixed(0)).join(" and ")}/s; other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
      ),
  );
  for (const { api } of opened) {
    await api.stop();
  }
  return [
    compareRounds("POST: requests/s with 3 years, compared with 40 days", posts, {
      value: ([many = 0]) => many,
      baseline: ([, few = 0]) => few,
      goal: { atLeast: 1 / FLAT },
    }),
    ...results,
  ];
};

/** Folds account by account and rewrites the tables when the last one is folded. */
const fold = async (
  stage: Stage,
  budgetMs: number,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const context = { db: stage.db, clock: systemClock, actor: SERVICE };
  const before = latestFoldTime(systemClock.now());
  const startedAtMs = performance.now();
  const secondsOfMillion: number[] = [];
  let left = ACCOUNTS;
  for (
    let number = 1;
    number <= ACCOUNTS && performance.now() - startedAtMs < budgetMs;
    number += 1
  ) {
    const beganAtMs = performance.now();
    const [folded] = await foldUsage(
      context,
      { before, accountId: pgbenchAccountId(number), isDryRun: false },
      () => undefined,
    );
    const seconds = (performance.now() - beganAtMs) / 1000;
    left -= 1;
    if (folded && folded.facts > 0) {
      secondsOfMillion.push((seconds / folded.facts) * 1e6);
      report(`folded ${folded.facts} facts and ${folded.events} events in ${seconds.toFixed(1)} s`);
    }
  }
  const results: Result[] = [];
  if (secondsOfMillion.length > 0) {
    results.push({
      what: `folding a million facts, ${PER_SECOND} in a meter event: seconds`,
      measured: describeSpread(secondsOfMillion, 1),
      baseline: "-",
      ratio: "-",
      goal: "-",
      isReached: null,
    });
  }
  report(`${left} accounts are left to fold`);
  if (left === 0) {
    await query(stage.url, "VACUUM FULL usage_fact, meter_event");
    await query(stage.url, "VACUUM (ANALYZE) usage_fact, meter_event, folded_usage");
  }
  results.push(
    ...(await listSizes(
      stage,
      left === 0 ? "folded and rewritten" : `folded except for ${left} accounts`,
    )),
  );
  return results;
};

/**
 * Measures a database with three years of usage beside one with forty days of it, at the same rate, and what folding
 * does. With `--data-folder`, the databases are kept, so that the steps can be runs of their own.
 */
export const measureYears = async (
  services: Services,
  sizes: YearSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const { registrations, steps, budgetMs } = sizes;
  const years = await openStage(services, "years", registrations, YEARS_SECONDS);
  const young = await openStage(
    services,
    "young",
    (registrations * YOUNG_SECONDS) / YEARS_SECONDS,
    YOUNG_SECONDS,
  );
  const results: Result[] = [];
  try {
    for (const step of steps) {
      if (step === "fill") {
        const left = (await fill(young, budgetMs, report)) + (await fill(years, budgetMs, report));
        report(`${left} accounts are left to fill`);
        if (left === 0) {
          results.push(...(await listSizes(years, "filled")));
        }
      } else if (step === "measure") {
        results.push(...(await measure(services, [years, young], sizes, report)));
      } else {
        results.push(...(await fold(years, budgetMs, report)));
      }
    }
  } finally {
    await years.db.end();
    await young.db.end();
  }
  return results;
};
