import { openPool } from "../db/pools/pool.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { changeBalance } from "../modules/stores/changeBalance.ts";
import { createStore } from "../modules/stores/manageStores.ts";
import { systemClock } from "../runtime/clock.ts";
import type { Benchmark } from "./support/benchmark.ts";
import { compareRounds } from "./support/compareRounds.ts";
import { query } from "./support/query.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { LoadReport } from "./support/runLoad.ts";
import {
  composeRegistrations,
  composeRequest,
  describeLoad,
  NUMBER,
  runLoad,
} from "./support/runLoad.ts";
import { accountIds, createAccounts } from "./support/createAccounts.ts";

/** More than any run can spend. */
const BALANCE_CENTS = 10_000_000_000;

/** More than can be refunded in a round. */
const REFUNDED = 50_000;

type Headers = Readonly<Record<string, string>>;

/** Returns the headers of each store's requests, by the store's id. */
const createFundedStores = async (
  databaseUrl: string,
  count: number,
): Promise<ReadonlyMap<string, Headers>> => {
  const db = await openPool(databaseUrl);
  const context = { db, clock: systemClock, actor: SERVICE };
  const stores = new Map<string, Headers>();
  try {
    for (let index = 0; index < count; index += 1) {
      const { id, domain, apiKeyProd } = await createStore(context, {
        domain: `bench-${index}.example`,
      });
      await changeBalance(context, {
        kind: "topup",
        storeId: id,
        amountCents: BALANCE_CENTS,
        reference: null,
        note: "",
      });
      stores.set(id, { api_key: apiKeyProd, shop_name: domain });
    }
  } finally {
    await db.end();
  }
  return stores;
};

type Recorded = {
  readonly id: string;
  readonly account_id: string;
  readonly order_id: string | null;
};

/** Registrations, and refunds of single ones, of many accounts of one interface. */
type Clients = {
  readonly url: string;
  readonly headersOf: ReadonlyMap<string, Headers>;
  readonly composeRegistrations: () => readonly string[];
  readonly refundPath: string;
  readonly refundBody: (record: Recorded) => object;
};

const organizationsOf = (
  url: string,
  ids: readonly string[],
  keys: readonly string[],
): Clients => ({
  url,
  headersOf: new Map(ids.map((id, index) => [id, { Authorization: keys[index] ?? "" }])),
  composeRegistrations: () => composeRegistrations(url, keys),
  refundPath: "/refund/trees",
  refundBody: ({ id }) => ({ id }),
});

const storesOf = (url: string, headersOf: ReadonlyMap<string, Headers>): Clients => ({
  url,
  headersOf,
  composeRegistrations: () => {
    const runId = crypto.randomUUID();
    const body = `{"trees":1,"customer_name":"Ann Lee","customer_email":"ann@example.com","order_id":"${runId}-${NUMBER}"}`;
    return Array.from(headersOf.values(), (headers) =>
      composeRequest(
        `${url}/app/api/plant`,
        { ...headers, "Idempotency-Key": `${runId}-${NUMBER}` },
        body,
      ),
    );
  },
  refundPath: "/app/api/refund",
  refundBody: ({ order_id: orderId }) => ({ type: "tree", quantity: 1, order_id: orderId }),
});

/** Returns refunds of registrations that nobody has refunded, in an arbitrary order. */
const composeRefunds = async (
  databaseUrl: string,
  { url, headersOf, refundPath, refundBody }: Clients,
): Promise<readonly string[]> => {
  // As autovacuum would have done.
  await query(databaseUrl, "VACUUM (ANALYZE)");
  const records = await query<Recorded>(
    databaseUrl,
    `SELECT id, account_id, order_id
     FROM registration
     WHERE account_id = ANY($1) AND refunded_count = 0
     ORDER BY random()
     LIMIT $2`,
    [[...headersOf.keys()], REFUNDED],
  );
  return records.map((record) =>
    composeRequest(
      `${url}${refundPath}`,
      headersOf.get(record.account_id) ?? {},
      JSON.stringify(refundBody(record)),
    ),
  );
};

type Round = Readonly<
  Record<"registrations" | "refunds" | "store registrations" | "store refunds", LoadReport>
>;

/**
 * Measures refunds of single registrations: of organizations by id, and of stores by order. The baseline of each is the
 * registrations of the same accounts just before. Also compares the registrations of stores, which they pay from their
 * balance, with those of organizations.
 */
export const refund: Benchmark = async ({ services, sizes, log }) => {
  const databaseUrl = await services.createDatabase("refund");
  const ids = accountIds(sizes.accounts);
  const keys = await createAccounts(databaseUrl, ids);
  const storeHeaders = await createFundedStores(databaseUrl, sizes.accounts);
  const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
  const organizations = organizationsOf(api.url, ids, keys);
  const stores = storesOf(api.storeUrl, storeHeaders);
  const load = ({ url }: Clients, requests: readonly string[]): Promise<LoadReport> =>
    runLoad(api, { url, requests, connections: sizes.connections, durationMs: sizes.roundMs });
  const rounds = await repeatUndisturbed(
    sizes.rounds,
    async (): Promise<Round> => ({
      registrations: await load(organizations, organizations.composeRegistrations()),
      refunds: await load(organizations, await composeRefunds(databaseUrl, organizations)),
      "store registrations": await load(stores, stores.composeRegistrations()),
      "store refunds": await load(stores, await composeRefunds(databaseUrl, stores)),
    }),
    (round) =>
      Object.entries(round)
        .map(([name, report]) => `${name} ${describeLoad(report)}`)
        .join("; "),
    log,
  );
  await api.stop();
  await services.dropDatabase("refund");
  const compared = [
    ["refunds", "registrations", null],
    ["store refunds", "store registrations", null],
    ["store registrations", "registrations", { atLeast: 0.7 }],
  ] as const;
  return compared.map(([subject, baseline, goal]) =>
    compareRounds(`${sizes.accounts} accounts: ${subject}/s, and ${baseline}/s`, rounds, {
      value: (round) => round[subject].requestsPerSecond,
      baseline: (round) => round[baseline].requestsPerSecond,
      goal,
    }),
  );
};
