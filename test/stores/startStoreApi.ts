import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createStoreApp } from "../../api/store/createStoreApp.ts";
import { systemClock } from "../../runtime/clock.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { createStore } from "../../modules/stores/manageStores.ts";
import type { NewStore } from "../../modules/stores/manageStores.ts";
import { changeBalance } from "../../modules/stores/changeBalance.ts";
import type { OperatorEntry } from "../../modules/stores/changeBalance.ts";
import type { Context } from "../../runtime/context.ts";
import { createCaller, readResponseChecker } from "../api/responseChecker.ts";
import { createTestContext } from "../api/testContext.ts";
import type { TestContextOptions } from "../api/testContext.ts";
import type { DatabaseContext } from "../support/database.ts";
import { serve } from "../support/server.ts";
import { readStoreState } from "./storeState.ts";

export type TestStore = {
  readonly id: string;
  readonly domain: string;
  readonly live: Readonly<Record<string, string>>;
  readonly test: Readonly<Record<string, string>>;
};

export type StoreApi = Awaited<ReturnType<typeof startStoreApi>>;

/** Returns the objects of a list in a response. */
export const rowsIn = (body: Readonly<Record<string, unknown>>, name: string) =>
  z.array(z.record(z.string(), z.unknown())).parse(body[name]);

/** Serves the store-platform interface as one process would, until the test ends. Every response is checked. */
export const startStoreApi = async (t: ExecutionContext, options: TestContextOptions) => {
  const context = createTestContext(() => "https://impact.example", {
    webhookSettings: { allowsHttp: true, allowedNetworks: [] },
    ...options,
  });
  const url = await serve(t, createStoreApp(context));
  const call = createCaller(t, url, await readResponseChecker(url, "store"));
  return {
    url,
    get: (path: string, headers: TestStore["live"]) => call("GET", path, headers),
    /** The body is sent as JSON; a string is sent as it is. */
    post: (path: string, headers: TestStore["live"], body: unknown) =>
      call("POST", path, headers, body),
  };
};

/** Serves the interface twice over one database, as two processes would; a request's number selects one. */
export const startTwoStoreApis = async (t: ExecutionContext, options: TestContextOptions) => {
  const even = await startStoreApi(t, options);
  const odd = await startStoreApi(t, options);
  return (index: number) => (index % 2 === 0 ? even : odd);
};

/** Adds an operator's entry to a store's ledger. */
export const changeTestBalance = (
  db: DatabasePool,
  storeId: string,
  amountCents: number,
  {
    kind = "topup",
    reference = null,
    clock = systemClock,
  }: Partial<Pick<OperatorEntry, "kind" | "reference">> & Partial<Pick<Context, "clock">> = {},
) =>
  changeBalance(
    { db, clock, actor: SERVICE },
    { kind, storeId, amountCents, reference, note: "test" },
  );

/** Creates a store where a tree costs 50 cents and a bottle 10. */
export const createTestStore = async (
  db: DatabasePool,
  { balanceCents = 0, ...given }: Partial<NewStore> & { readonly balanceCents?: number } = {},
): Promise<TestStore> => {
  const { id, domain, apiKeyProd, apiKeyTest } = await createStore(
    { db, clock: systemClock, actor: SERVICE },
    { domain: `shop-${crypto.randomUUID()}.example`, ...given },
  );
  if (balanceCents > 0) {
    await changeTestBalance(db, id, balanceCents);
  }
  return {
    id,
    domain,
    live: { api_key: apiKeyProd, shop_name: domain },
    test: { api_key: apiKeyTest, shop_name: domain },
  };
};

/** Serves the store-platform interface for a new store. */
export const startStoreApiOf = async (
  t: ExecutionContext<Pick<DatabaseContext, "db">>,
  {
    store: given,
    db = t.context.db,
    ...options
  }: Partial<TestContextOptions> & { readonly store?: Parameters<typeof createTestStore>[1] } = {},
) => {
  const api = await startStoreApi(t, { db, ...options });
  const store = await createTestStore(db, given);
  return { ...api, db, store, state: () => readStoreState(db, store.id) };
};
