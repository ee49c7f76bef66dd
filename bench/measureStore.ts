import { openPool } from "../db/pool.ts";
import { systemClock } from "../domain/clock.ts";
import { SERVICE } from "../domain/accounts/audit.ts";
import { createStore } from "../services/stores/createStore.ts";
import { topUpStore } from "../services/stores/balance/topUpStore.ts";
import type { RegistrationSizes } from "./measureRegistrations.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { Result } from "./support/result.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { describeSpread, median } from "./support/statistics.ts";

const WARM_UP_MS = 1500;
/** More than any run can spend. */
const BALANCE_CENTS = 10_000_000_000;

const createFundedStore = async (databaseUrl: string) => {
  const db = await openPool(databaseUrl);
  const deps = { db, clock: systemClock, actor: SERVICE };
  try {
    const store = await createStore(deps, {
      domain: "bench.example",
      userId: null,
      organizationId: null,
      treePriceCents: 50,
      bottlePriceCents: 10,
      lowBalanceCents: 0,
    });
    await topUpStore(deps, {
      storeId: store.id,
      amountCents: BALANCE_CENTS,
      reference: null,
      note: "",
    });
    return store;
  } finally {
    await db.end();
  }
};

type Round = { readonly store: LoadReport; readonly standalone: LoadReport };

const describeLoad = ({ requestsPerSecond, p99Ms }: LoadReport): string =>
  `${requestsPerSecond.toFixed(0)}/s, p99 ${p99Ms.toFixed(1)} ms`;

const compare = (
  what: string,
  rounds: readonly Round[],
  value: (load: LoadReport) => number,
  digits: number,
): Result => ({
  what: `POST of one store: ${what} compared with one organization`,
  measured: describeSpread(
    rounds.map(({ store }) => value(store)),
    digits,
  ),
  baseline: describeSpread(
    rounds.map(({ standalone }) => value(standalone)),
    digits,
  ),
  ratio: median(rounds.map(({ store, standalone }) => value(store) / value(standalone))).toFixed(2),
  goal: "",
  isReached: null,
});

/**
 * Compares POST /app/api/plant of one store, with balance, ledger, customer indexes and idempotency keys, with
 * POST /plant/trees of one organization in the same process.
 */
export const measureStore = async (
  services: Services,
  { connections, rounds, roundMs }: RegistrationSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("store");
  const [key = ""] = await createAccounts(databaseUrl, [crypto.randomUUID()]);
  const { domain, apiKeyProd } = await createFundedStore(databaseUrl);
  const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
  const load = { connections, warmUpMs: WARM_UP_MS, durationMs: roundMs };
  const results = await repeatUndisturbed(
    rounds,
    async (): Promise<Round> => ({
      standalone: await runLoad({ ...load, keys: [key], url: `${api.url}/plant/trees` }),
      store: await runLoad({
        ...load,
        keys: [apiKeyProd],
        shopName: domain,
        url: `${api.storeUrl}/app/api/plant`,
      }),
    }),
    ({ store, standalone }) =>
      report(
        `POST of one store ${describeLoad(store)}; of one organization ${describeLoad(standalone)}`,
      ),
  );
  await api.stop();
  await services.dropDatabase("store");
  return [
    compare("requests/s", results, ({ requestsPerSecond }) => requestsPerSecond, 0),
    compare("p99 ms", results, ({ p99Ms }) => p99Ms, 1),
  ];
};
