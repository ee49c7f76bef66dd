import { Client } from "pg";
import { openPool } from "../db/pools/pool.ts";
import { systemClock } from "../runtime/clock.ts";
import { createPlantingOrders } from "../modules/planting/createPlantingOrders.ts";
import { getDashboardSlug } from "../modules/dashboard/getDashboardSlug.ts";
import { readDashboard } from "../modules/dashboard/readDashboard.ts";
import type { PlantingContext } from "../modules/planting/context.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { createPlantedPlanting, plantOrders } from "./support/plantOrders.ts";
import { readRepeatedly } from "./support/readRepeatedly.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { describeSpread, median } from "./support/statistics.ts";
import { timeCalls } from "./support/timeCalls.ts";

export type EvidenceSizes = {
  readonly registrations: number;
  readonly connections: number;
  readonly rounds: number;
  readonly roundMs: number;
};

const FEW = 100;
const SPAN_SECONDS = 30 * 24 * 3600;
const TREES_READ = 2000;
const DASHBOARD_READS = 400;
const WARM_UP_MS = 1000;
const NEVER_ABORTED = new AbortController().signal;

/** Highest growth of a cost that counts as flat. */
const FLAT = 1.25;

const repeat = async <Value>(
  rounds: number,
  measure: () => Promise<Value>,
): Promise<readonly Value[]> => {
  const values: Value[] = [];
  for (let round = 0; round < rounds; round += 1) {
    values.push(await measure());
  }
  return values;
};

const fill = (databaseUrl: string, accountId: string, count: number): Promise<void> =>
  fillRegistrations(databaseUrl, { accountId, count, spanSeconds: SPAN_SECONDS, reported: true });

/** Measures the evidence of trees: read for the first time, cached, and beside it a read by primary key. */
const measureReads = async (
  client: Client,
  {
    urls,
    headers,
    ids,
  }: {
    readonly urls: readonly string[];
    readonly headers: { readonly Authorization: string };
    readonly ids: readonly string[];
  },
  { connections, rounds, roundMs }: Omit<EvidenceSizes, "registrations">,
) => {
  const first = await timeCalls(urls.length, (index) =>
    fetch(urls[index] ?? "", { headers }).then((response) => response.text()),
  );
  const evidence = await repeat(rounds, () =>
    readRepeatedly({ urls, headers, connections, warmUpMs: WARM_UP_MS, durationMs: roundMs }),
  );
  const keyRead = await timeCalls(ids.length, (index) =>
    client.query("SELECT * FROM registration WHERE id = $1", [ids[index]]),
  );
  const cached = await timeCalls(ids.length, (index) =>
    fetch(urls[index] ?? "", { headers }).then((response) => response.text()),
  );
  return { first, evidence, keyRead, cached };
};

/** Reads the data of the dashboards of a large and of a small account. */
const measureDashboards = async (
  context: PlantingContext,
  accounts: { readonly large: string; readonly small: string },
  rounds: number,
) => {
  const slugs = {
    large: await getDashboardSlug(context, accounts.large),
    small: await getDashboardSlug(context, accounts.small),
  };
  return repeat(rounds, async () => ({
    large: await timeCalls(DASHBOARD_READS, () => readDashboard(context, slugs.large)),
    small: await timeCalls(DASHBOARD_READS, () => readDashboard(context, slugs.small)),
  }));
};

/** Measures evidence and the dashboard of an account with many registrations. */
export const measureEvidence = async (
  services: Services,
  { registrations, connections, rounds, roundMs }: EvidenceSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("evidence");
  const [large, small] = [crypto.randomUUID(), crypto.randomUUID()];
  const [largeKey = ""] = await createAccounts(databaseUrl, [large, small]);
  await fill(databaseUrl, large, registrations);
  await fill(databaseUrl, small, FEW);
  const db = await openPool(databaseUrl);
  const context = { db, clock: systemClock, planting: createPlantedPlanting() };
  const startedAtMs = performance.now();
  const orders = await createPlantingOrders(context, NEVER_ABORTED);
  const creationMs = performance.now() - startedAtMs;
  report(`${orders} orders created in ${(creationMs / 1000).toFixed(0)} s`);
  await plantOrders(context, orders);
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query("VACUUM (ANALYZE) registration");
  const { rows } = await client.query<{ id: string }>(
    "SELECT id FROM registration TABLESAMPLE SYSTEM (20) WHERE account_id = $1 LIMIT $2",
    [large, TREES_READ],
  );
  const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
  const urls = rows.map(({ id }) => `${api.url}/evidence/tree/${id}`);
  const { first, evidence, keyRead, cached } = await measureReads(
    client,
    { urls, headers: { Authorization: largeKey }, ids: rows.map(({ id }) => id) },
    { connections, rounds, roundMs },
  );
  report(
    `evidence: first ${first.toFixed(2)} ms, cached ${cached.toFixed(2)} ms, primary key ${keyRead.toFixed(2)} ms`,
  );

  const dashboards = await measureDashboards(context, { large, small }, rounds);
  await api.stop();
  await client.end();
  await db.end();
  await services.dropDatabase("evidence");

  const flatness = median(dashboards.map(({ large: many, small: few }) => many / few));
  return [
    {
      what: `evidence of one tree of ${registrations}, cached, over HTTP: ms compared with a primary-key read`,
      measured: `${cached.toFixed(2)} (first time ${first.toFixed(2)})`,
      baseline: keyRead.toFixed(2),
      ratio: (cached / keyRead).toFixed(1),
      goal: "-",
      isReached: null,
    },
    {
      what: `evidence: requests/s with ${connections} connections`,
      measured: describeSpread(evidence.map(({ requestsPerSecond }) => requestsPerSecond)),
      baseline: "-",
      ratio: "-",
      goal: "-",
      isReached: null,
    },
    {
      what: `dashboard data, ${registrations} registrations: ms compared with ${FEW}`,
      measured: median(dashboards.map((times) => times.large)).toFixed(2),
      baseline: median(dashboards.map((times) => times.small)).toFixed(2),
      ratio: flatness.toFixed(2),
      goal: `flat: at most ${FLAT}`,
      isReached: flatness <= FLAT,
    },
    {
      what: `creating ${orders} planting orders from ${registrations} registrations: seconds`,
      measured: (creationMs / 1000).toFixed(0),
      baseline: "-",
      ratio: "-",
      goal: "-",
      isReached: null,
    },
  ];
};
