import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../db/sql.ts";
import { openPool } from "../db/pools/pool.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { systemClock } from "../runtime/clock.ts";
import { changeBalance } from "../modules/stores/changeBalance.ts";
import { createStore } from "../modules/stores/manageStores.ts";
import type { RegistrationSizes } from "./measureRegistrations.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { watchGroups } from "./support/watchMachine.ts";

const WARM_UP_MS = 1500;
const MANY_STORES = 1000;
/** More than any run can spend. */
const BALANCE_CENTS = 10_000_000_000;

type BenchStore = { readonly domain: string; readonly apiKeyProd: string };

const createFundedStores = async (
  db: Awaited<ReturnType<typeof openPool>>,
  count: number,
): Promise<readonly BenchStore[]> => {
  const context = { db, clock: systemClock, actor: SERVICE };
  const stores: BenchStore[] = [];
  for (let index = 0; index < count; index += 1) {
    const store = await createStore(context, {
      domain: `bench-${index}.example`,
      userId: null,
      organizationId: null,
      treePriceCents: 50,
      bottlePriceCents: 10,
      lowBalanceCents: 0,
    });
    await changeBalance(context, {
      kind: "topup",
      storeId: store.id,
      amountCents: BALANCE_CENTS,
      reference: null,
      note: "",
    });
    stores.push(store);
  }
  return stores;
};

/**
 * Counts the stores whose balance differs from what they were given less what they registered, or whose ledger has a
 * balance that does not follow from the one before.
 */
const countInexactBalances = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.type(z.strictObject({ stores: safeInteger }))`
    WITH entry AS (
      SELECT
        account_id, id, balance_cents,
        sum(amount_cents) OVER (PARTITION BY account_id ORDER BY id) AS expected_cents
      FROM balance_entry
    ),
    spent AS (
      SELECT account_id, sum(count * unit_price_cents) AS cents
      FROM registration
      WHERE unit_price_cents IS NOT NULL
      GROUP BY account_id
    )
    SELECT count(*) AS stores
    FROM store_balance
    LEFT JOIN spent USING (account_id)
    WHERE store_balance.balance_cents <> ${BALANCE_CENTS} - coalesce(spent.cents, 0)
      OR EXISTS (
        SELECT
        FROM entry
        WHERE entry.account_id = store_balance.account_id AND entry.balance_cents <> entry.expected_cents
      )
  `);

/** CPU time of a request in milliseconds. */
type Cost = { readonly api: number; readonly postgres: number };

type Measured = LoadReport & { readonly cost: Cost };

type Round = { readonly store: Measured; readonly standalone: Measured };

const describeLoad = ({ requestsPerSecond, p99Ms, cost }: Measured): string =>
  `${requestsPerSecond.toFixed(0)}/s, p99 ${p99Ms.toFixed(1)} ms, ` +
  `CPU of a request ${(cost.api * 1000).toFixed(0)} + ${(cost.postgres * 1000).toFixed(0)} µs (API + PostgreSQL)`;

/**
 * Compares POST /app/api/plant of stores, with balance, ledger, customer indexes and idempotency keys, with
 * POST /plant/trees of as many organizations in the same process.
 */
export const measureStore = async (
  services: Services,
  { connections, rounds, roundMs }: RegistrationSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("store");
  const db = await openPool(databaseUrl);
  const organizationKeys = await createAccounts(
    databaseUrl,
    Array.from({ length: MANY_STORES }, () => crypto.randomUUID()),
  );
  const stores = await createFundedStores(db, MANY_STORES);
  const settings = { DATABASE_URL: databaseUrl };
  const api = await services.startProgram("api/main.ts", settings);
  const load = { connections, warmUpMs: WARM_UP_MS, durationMs: roundMs };
  const measure = async (options: Parameters<typeof runLoad>[0]): Promise<Measured> => {
    const readCpuMs = await watchGroups({ api: [api.pid], postgres: "postgres" });
    const measured = await runLoad(options);
    const cpuMs = await readCpuMs();
    // The CPU time includes the warm-up.
    const requests = (measured.requestsPerSecond / 1000) * (WARM_UP_MS + roundMs);
    return {
      ...measured,
      cost: { api: cpuMs.api / requests, postgres: cpuMs.postgres / requests },
    };
  };
  const results: Result[] = [];
  for (const count of [1, MANY_STORES]) {
    const paying = stores.slice(0, count);
    const name = count === 1 ? "one store" : `${count} stores`;
    const measured = await repeatUndisturbed(
      rounds,
      async (): Promise<Round> => ({
        standalone: await measure({
          ...load,
          keys: organizationKeys.slice(0, count),
          url: `${api.url}/plant/trees`,
        }),
        store: await measure({
          ...load,
          keys: paying.map(({ apiKeyProd }) => apiKeyProd),
          shopNames: paying.map(({ domain }) => domain),
          url: `${api.storeUrl}/app/api/plant`,
        }),
      }),
      ({ store, standalone }) =>
        report(
          `POST of ${name} ${describeLoad(store)}; of organizations ${describeLoad(standalone)}`,
        ),
    );
    const what = `POST of ${name} compared with as many organizations`;
    results.push(
      compareRounds(`${what}: requests/s`, measured, {
        value: ({ store }) => store.requestsPerSecond,
        baseline: ({ standalone }) => standalone.requestsPerSecond,
        goal: { atLeast: 0.7 },
      }),
      compareRounds(`${what}: p99 ms`, measured, {
        value: ({ store }) => store.p99Ms,
        baseline: ({ standalone }) => standalone.p99Ms,
        digits: 1,
      }),
    );
  }
  await api.stop();
  const inexact = await countInexactBalances(db);
  await db.end();
  await services.dropDatabase("store");
  results.push({
    what: "stores whose balance is not exact",
    measured: String(inexact),
    baseline: "0",
    ratio: "",
    goal: "none",
    isReached: inexact === 0,
  });
  return results;
};
