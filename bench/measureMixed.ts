import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { openBulkPool } from "../db/createBulkPace.ts";
import { openPool } from "../db/pools/pool.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { systemClock } from "../runtime/clock.ts";
import { issueKey } from "../modules/accounts/issueKey.ts";
import { createBilling } from "../modules/billing/createBilling.ts";
import { runReconciliation } from "../modules/billing/reconciliation/runReconciliation.ts";
import { createPlantingOrders } from "../modules/planting/createPlantingOrders.ts";
import { createTestPlanting } from "../test/support/planting.ts";
import { readList, readLists, repeat, runCommands } from "./support/bulkNeighbors.ts";
import type { Work } from "./support/bulkNeighbors.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { fillYears } from "./support/fillYears.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { Result } from "./support/result.ts";
import type { LoadOptions, LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { describeSpread, median } from "./support/statistics.ts";
import { accountIds } from "./support/waitUntilDrained.ts";

/** What POSTs are measured beside. */
export const NEIGHBORS = [
  "json",
  "csv",
  "reconciliation",
  "command",
  "import",
  "planting",
] as const;

export type Neighbor = (typeof NEIGHBORS)[number];

export type MixedSizes = {
  readonly registrations: number;
  /** `all` is all of them together. */
  readonly beside: readonly (Neighbor | "all")[];
  readonly rounds: number;
  readonly roundMs: number;
  readonly connections: number;
  readonly requestsPerSecond: number;
};

/** The span of a reconciliation. */
const SPAN_SECONDS = 30 * 24 * 3600;
/** Registrations of a meter event. */
const PER_SECOND = 5;
const WRITING_ACCOUNTS = 100;
/** In it, bulk work notices the load. */
const WARM_UP_MS = 3000;
/** In it, commands start. */
const START_MS = 2000;
/** More than an import can read in a round. */
const IMPORTED_LINES = 500_000;
/** More than are ordered in all rounds. */
const UNORDERED_REGISTRATIONS = 1_000_000;
const TITLES: Readonly<Record<Neighbor | "all", string>> = {
  json: "a list as JSON",
  csv: "a list as CSV",
  reconciliation: "a reconciliation",
  command: "impact usage reconcile",
  import: "an import",
  planting: "the creation of planting orders",
  all: "all of them",
};

const UNITS: Readonly<Record<Neighbor, string>> = {
  json: "MB of lists",
  csv: "MB of lists",
  reconciliation: "reconciliations",
  command: "commands",
  import: "imported lines",
  planting: "ordered registrations",
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

const issueReadingKey = async (databaseUrl: string, accountId: string): Promise<string> => {
  const db = await openPool(databaseUrl, 1);
  try {
    const account = { id: accountId, type: "organization" } as const;
    const { key } = await issueKey({ db, clock: systemClock, actor: SERVICE }, account, "live");
    return key;
  } finally {
    await db.end();
  }
};

/** Inserts the registrations, unless an earlier run with the same data folder has. Returns a key of their account. */
const fillOnce = async (
  databaseUrl: string,
  registrations: number,
  report: (line: string) => void,
): Promise<string> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ id: string }>(
      "SELECT account_id AS id FROM impact_total WHERE period = 'all' AND total >= $1 LIMIT 1",
      [registrations],
    );
    if (rows[0]) {
      return await issueReadingKey(databaseUrl, rows[0].id);
    }
    report(`filling ${registrations} registrations`);
    const [accountId = ""] = accountIds(1);
    const [key = ""] = await createAccounts(databaseUrl, [accountId]);
    await fillYears(databaseUrl, {
      accountId,
      registrations,
      spanSeconds: SPAN_SECONDS,
      perSecond: PER_SECOND,
    });
    // With this many rows, autovacuum would have run.
    await client.query("VACUUM (ANALYZE)");
    await client.query("CHECKPOINT");
    return key;
  } finally {
    await client.end();
  }
};

const readNumber = async (
  databaseUrl: string,
  query: string,
  accountId: string | undefined,
): Promise<number> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ number: string }>(query, [accountId]);
    return Number(rows[0]?.number);
  } finally {
    await client.end();
  }
};

const describe = ({ requestsPerSecond, p50Ms, p99Ms }: LoadReport): string =>
  `${requestsPerSecond.toFixed(0)}/s, p50 ${p50Ms.toFixed(1)}, p99 ${p99Ms.toFixed(1)} ms`;

type Works = Readonly<Record<Neighbor, Work>>;

const createWorks = ({
  databaseUrl,
  url,
  readingKey,
  history,
  importing,
  ordering,
}: {
  readonly databaseUrl: string;
  readonly url: string;
  readonly readingKey: string;
  /** The file to import. */
  readonly history: string;
  /** The accounts to import into. */
  readonly importing: readonly string[];
  /** The account whose trees are ordered. */
  readonly ordering: string;
}): Works => {
  let reconciliations = 0;
  let commands = 0;
  let imported = 0;
  return {
    json: readLists(url, readingKey, "application/json"),
    csv: readLists(url, readingKey, "text/csv"),
    reconciliation: {
      run: repeat(databaseUrl, async (db, pace, aborted) => {
        const billing = createBilling({ db, stripe: null, pace });
        const id = crypto.randomUUID();
        await runReconciliation(
          { db, clock: systemClock, billing, pace },
          { id, isFinal: true },
          aborted,
        );
        reconciliations += 1;
      }),
      count: () => Promise.resolve(reconciliations),
    },
    command: {
      run: runCommands(databaseUrl, () => {
        commands += 1;
        return ["usage", "reconcile"];
      }),
      count: () => Promise.resolve(commands),
    },
    // Each round imports into another account, so that it does not find what the last one has imported.
    import: {
      run: runCommands(databaseUrl, () => {
        imported += 1;
        return ["import", "history", history, "--org", importing[imported] ?? ""];
      }),
      count: () =>
        readNumber(
          databaseUrl,
          "SELECT count(*) AS number FROM registration WHERE account_id = $1",
          importing[imported],
        ),
    },
    planting: {
      run: repeat(databaseUrl, (db, pace, aborted) =>
        createPlantingOrders(
          { db: openBulkPool(db, pace), clock: systemClock, planting: createTestPlanting() },
          aborted,
        ),
      ),
      count: () =>
        readNumber(
          databaseUrl,
          "SELECT coalesce(sum(tree_count), 0) AS number FROM planting_order WHERE account_id = $1",
          ordering,
        ),
    },
  };
};

const measureBeside = async (
  parts: readonly Neighbor[],
  works: Works,
  load: Omit<LoadOptions, "warmUpMs">,
): Promise<LoadReport & { readonly done: string }> => {
  const ended = new AbortController();
  const countAll = () => Promise.all(parts.map((part) => works[part].count()));
  const running = Promise.all(parts.map((part) => works[part].run(ended.signal)));
  await Promise.race([delay(parts.length === 0 ? 0 : START_MS), running]);
  const measured = runLoad({ ...load, warmUpMs: WARM_UP_MS });
  await Promise.race([delay(WARM_UP_MS), running]);
  const before = await countAll();
  // Work that fails ends the measurement.
  const [loaded] = await Promise.all([
    Promise.race([measured, running.then(() => measured)]).finally(() => ended.abort()),
    running,
  ]);
  const after = await countAll();
  const done = parts.map((part, index) => {
    const perSecond = (((after[index] ?? 0) - (before[index] ?? 0)) * 1000) / load.durationMs;
    return `${perSecond.toFixed(1)} ${UNITS[part]}`;
  });
  return { ...loaded, done: done.length === 0 ? "" : `; meanwhile a second: ${done.join(", ")}` };
};

/**
 * Compares the POSTs of many accounts, at a steady rate, with the same while another account's lists are read, usage is
 * reconciled, history is imported and planting orders are created: each alone, and all together.
 */
export const measureMixed = async (
  services: Services,
  { registrations, beside, rounds, roundMs, connections, requestsPerSecond }: MixedSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.openDatabase("mixed");
  const readingKey = await fillOnce(databaseUrl, registrations, report);
  const keys = await createAccounts(databaseUrl, accountIds(WRITING_ACCOUNTS));
  // Of each three rounds, two may be disturbed and repeated.
  const importing = accountIds(1 + 3 * beside.length * rounds);
  await createAccounts(databaseUrl, importing);
  const [ordering = ""] = accountIds(1);
  await createAccounts(databaseUrl, [ordering]);
  if (beside.some((name) => name === "planting" || name === "all")) {
    await fillRegistrations(databaseUrl, {
      accountId: ordering,
      count: UNORDERED_REGISTRATIONS,
      spanSeconds: SPAN_SECONDS,
      reported: true,
    });
  }
  const history = join(services.folder, "history.ndjson");
  await pipeline(Readable.from(historyLines()), createWriteStream(history));
  // Nothing listens there; none of this needs Temporal.
  const settings = { DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS: "127.0.0.1:1" };
  const api = await services.startProgram("api/main.ts", settings);
  const url = `${api.url}/plant/trees`;
  const works = createWorks({ databaseUrl, url, readingKey, history, importing, ordering });
  const load = { url, keys, connections, requestsPerSecond, durationMs: roundMs };
  const measure = (parts: readonly Neighbor[]) => measureBeside(parts, works, load);
  report("reading the list once");
  await readList(url, { headers: { Authorization: readingKey } });
  const results: Result[] = [];
  for (const name of beside) {
    const parts = name === "all" ? NEIGHBORS : [name];
    let isAloneFirst = false;
    const pairs = await repeatUndisturbed(
      rounds,
      async () => {
        // In turn, so that neither is always the first.
        isAloneFirst = !isAloneFirst;
        const first = await measure(isAloneFirst ? [] : parts);
        const second = await measure(isAloneFirst ? parts : []);
        return isAloneFirst ? { alone: first, beside: second } : { alone: second, beside: first };
      },
      ({ alone, beside: near }, others) => {
        report(
          `POST beside ${TITLES[name]}: ${describe(near)}; alone ${describe(alone)}; ` +
            `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU${near.done}`,
        );
      },
    );
    const show = (value: (pair: (typeof pairs)[number]) => LoadReport): string =>
      `${median(pairs.map((pair) => value(pair).p50Ms)).toFixed(1)}, ` +
      `${median(pairs.map((pair) => value(pair).p99Ms)).toFixed(1)} ms`;
    const ratios = pairs.map(({ alone, beside: near }) => near.p99Ms / alone.p99Ms);
    results.push({
      what: `POST, ${requestsPerSecond}/s, beside ${TITLES[name]}: p50, p99`,
      measured: show((pair) => pair.beside),
      baseline: show((pair) => pair.alone),
      ratio: describeSpread(ratios, 2),
      goal: "p99 less than 2.00",
      isReached: median(ratios) < 2,
    });
  }
  await api.stop();
  return results;
};
