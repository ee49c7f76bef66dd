import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { openPool } from "../db/pools/pool.ts";
import { updateAccount } from "../modules/accounts/accounts.sql.ts";
import { startProviderDouble } from "../test/charities/startProviderDouble.ts";
import { createAccounts } from "./support/createAccounts.ts";
import type { Result } from "./support/result.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { percentile } from "./support/statistics.ts";
import { accountIds } from "./support/waitUntilDrained.ts";

export type DonationSizes = {
  /** Donations of each kind in each condition. */
  readonly donations: number;
  /** Registrations per second that are received and reported in the second condition. */
  readonly reportedPerSecond: number;
};

/** Enough keys that none exceeds its twenty donations a second. */
const DONORS = 40;
const REPORTING_ACCOUNTS = 200;
/** Longer than the measurement beside it. */
const LOAD_SECONDS = 40;
/** The first usage is sealed after three seconds. */
const UNTIL_REPORTING_MS = 4000;
const GOAL_P50_MS = 40;

/** A charity of the built-in catalogue. */
const CATALOGUE_EIN = "53-0196605";

type Latencies = { readonly p50Ms: number; readonly p99Ms: number };

const setProvider = async (databaseUrl: string, accounts: readonly string[]): Promise<void> => {
  const db = await openPool(databaseUrl);
  try {
    for (const id of accounts) {
      await updateAccount(db, id, { charityProvider: "everyorg" });
    }
  } finally {
    await db.end();
  }
};

/** Returns a function that posts a body and resolves when the response has been read. */
const createClient = (agent: Agent, url: string) => (key: string, path: string, body: unknown) =>
  new Promise<void>((resolve, reject) => {
    request(
      `${url}${path}`,
      {
        agent,
        method: "POST",
        headers: { Authorization: key, "Content-Type": "application/json" },
      },
      (response) => {
        response
          .resume()
          .on("end", () =>
            response.statusCode === 200
              ? resolve()
              : reject(new Error(`POST ${path}: status ${response.statusCode}`)),
          );
      },
    )
      .on("error", reject)
      .end(JSON.stringify(body));
  });

/** Returns one of the keys in rotation. */
const keyOf = (keys: readonly string[], index: number): string => keys[index % keys.length] ?? "";

/** Calls one after the other. */
const measure = async (
  count: number,
  call: (index: number) => Promise<void>,
): Promise<Latencies> => {
  const latenciesMs: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const startedAtMs = performance.now();
    await call(index);
    latenciesMs.push(performance.now() - startedAtMs);
  }
  const ascending = latenciesMs.toSorted((left, right) => left - right);
  return { p50Ms: percentile(ascending, 0.5), p99Ms: percentile(ascending, 0.99) };
};

const describe = ({ p50Ms, p99Ms }: Latencies): string =>
  `p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`;

const resultOf = (what: string, latencies: Latencies, baseline: Latencies): Result => ({
  what: `donations: one at a time, ${what}`,
  measured: describe(latencies),
  baseline: `${describe(baseline)} (a registration)`,
  ratio: (latencies.p50Ms / baseline.p50Ms).toFixed(1),
  goal: `p50 at most ${GOAL_P50_MS} ms`,
  isReached: latencies.p50Ms <= GOAL_P50_MS,
});

const descriptionOf = (ein: string) => ({
  data: { nonprofit: { primarySlug: `charity-${ein}`, name: `Charity ${ein}`, ein } },
});

/**
 * Measures a donation at a time: to a charity of the catalogue, to one that its provider has described before, and to one
 * that the provider describes now. The baseline is a registration at a time, by the same client and in the same condition.
 */
export const measureDonations = async (
  services: Services,
  { donations, reportedPerSecond }: DonationSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("donations");
  const provider = await startProviderDouble();
  const toCatalogue = accountIds(DONORS);
  const toProvider = accountIds(DONORS);
  const reporting = accountIds(REPORTING_ACCOUNTS);
  const keys = await createAccounts(databaseUrl, [...toCatalogue, ...toProvider, ...reporting]);
  await setProvider(databaseUrl, toProvider);
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: await services.startTemporal(),
    EVERYORG_API_KEY: "key",
    EVERYORG_API_BASE: provider.url,
    // The interval of a real partner, because this benchmark is about donations.
    PLANTING_ORDER_INTERVAL_SECONDS: "86400",
  };
  const worker = await services.startProgram("worker/main.ts", settings);
  const api = await services.startProgram("api/main.ts", settings);
  const agent = new Agent({ keepAlive: true });
  const post = createClient(agent, api.url);
  const catalogueKeys = keys.slice(0, DONORS);
  const providerKeys = keys.slice(DONORS, 2 * DONORS);
  for (const key of [...catalogueKeys, ...providerKeys]) {
    await post(key, "/charities/subscribe", {});
  }

  let known = 0;
  const addCharity = (): string => {
    known += 1;
    const ein = String(100_000_000 + known);
    provider.responses.set(`/nonprofit/${ein}`, descriptionOf(ein));
    return ein;
  };
  const donate = (group: readonly string[], index: number, ein: string): Promise<void> =>
    post(keyOf(group, index), "/charities/donate", { amount_cents: 100, ein });
  const kinds: Readonly<Record<string, (index: number) => Promise<void>>> = {
    "a charity of the catalogue": (index) => donate(catalogueKeys, index, CATALOGUE_EIN),
    "a described charity": (index) => donate(providerKeys, index, "100000001"),
    "a charity that the provider describes now": (index) =>
      donate(providerKeys, index, addCharity()),
  };
  await donate(providerKeys, 0, addCharity());

  const measureAll = async (condition: string): Promise<readonly Result[]> => {
    const baseline = await measure(donations, (index) =>
      post(keyOf(catalogueKeys, index), "/plant/trees", { count: 1 }),
    );
    const results: Result[] = [];
    for (const [kind, call] of Object.entries(kinds)) {
      const latencies = await measure(donations, call);
      report(
        `donations, ${condition}, to ${kind}: ${describe(latencies)}; registration ${describe(baseline)}`,
      );
      results.push(resultOf(`${condition}, to ${kind}`, latencies, baseline));
    }
    return results;
  };

  try {
    const alone = await measureAll("alone");
    const load = runLoad({
      url: `${api.url}/plant/trees`,
      keys: keys.slice(2 * DONORS),
      connections: 16,
      requestsPerSecond: reportedPerSecond,
      warmUpMs: 0,
      durationMs: LOAD_SECONDS * 1000,
    });
    await sleep(UNTIL_REPORTING_MS);
    const busy = await measureAll(`beside ${reportedPerSecond} registrations/s that are reported`);
    await load;
    return [...alone, ...busy];
  } finally {
    agent.destroy();
    await api.stop();
    await worker.stop();
    await provider.close();
    await services.dropDatabase("donations");
  }
};
