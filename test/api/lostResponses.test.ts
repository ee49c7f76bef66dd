import type { CheckedResponse } from "./responseChecker.ts";
import { EIN, readDonationLedger } from "../charities/donations/donationSetup.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { readStoreState } from "../stores/storeState.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startRelay } from "../support/relay.ts";
import { unreachableTemporal } from "../support/temporalOnDemand.ts";
import { idIn } from "./contract.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

/*
 * PostgreSQL has committed, and the connection is lost instead of its response. The client repeats the request with its
 * key, at the same process and at another one.
 */
const test = testWithDatabase();

type State = Readonly<Record<string, number | bigint | null>>;

/** A client of two processes, of which the first reaches the database through a relay. */
type Scene = {
  readonly send: (process: "interrupted" | "other", key: string | null) => Promise<CheckedResponse>;
  readonly readState: () => Promise<State>;
  readonly loseResponse: (text: string) => void;
};

/** Returns what has changed from one state to another. */
const subtract = (after: State, before: State): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(after)
      .map(([name, value]) => [name, Number(value) - Number(before[name])] as const)
      .filter(([, change]) => change !== 0),
  );

/**
 * Sends a write without a key and one with a key, of which both lose their responses, and repeats the second.
 * @param commit the text with which the process commits
 * @param change what the two writes change
 */
const recordsOnce = async (
  t: DatabaseTest,
  { send, readState, loseResponse }: Scene,
  { commit, change }: { readonly commit: string; readonly change: State },
): Promise<void> => {
  const before = await readState();
  for (const key of [null, "again"]) {
    loseResponse(commit);
    const response = await send("interrupted", key);
    t.like(response, { status: 500, body: { error: "internal server error" } });
  }
  for (const process of ["interrupted", "other"] as const) {
    t.like(await send(process, "again"), { status: 200, replayed: "true" });
  }
  t.deepEqual(subtract(await readState(), before), change);
};

const ORGANIZATION_WRITES = {
  registration: {
    path: "/plant/trees",
    body: { count: 3 },
    commit: "insert_registrations",
    change: { registrations: 2, registered: 6, total: 6, facts: 2, usage: 6 },
  },
  refund: {
    path: "/refund/trees",
    body: { count: 3 },
    commit: "COMMIT",
    change: { refunded: 6, total: -6, facts: 2, usage: -6 },
  },
  donation: {
    path: "/charities/donate",
    body: { ein: EIN, amount_cents: 300 },
    commit: "insert_donations",
    change: { donations: 2, count: 2, cents: 600 },
  },
  // Refunding a donation again returns the first refund.
  "refund of a donation": {
    path: "/refund/donations",
    body: {},
    commit: "COMMIT",
    change: { count: -1, cents: -700 },
  },
};

for (const [name, { path, body, ...write }] of Object.entries(ORGANIZATION_WRITES)) {
  test(`a ${name} whose commit is not confirmed is a 500, and its repeat returns the one record`, async (t) => {
    const { db, databaseUrl } = t.context;
    const { url, loseResponse } = await startRelay(t, databaseUrl);
    const openTemporal = unreachableTemporal;
    const relayed = await openTestPool(t, url);
    const interrupted = await startStandaloneApi(t, { db: relayed, openTemporal });
    const other = await startStandaloneApi(t, { db, openTemporal });
    const { id: accountId, apiKeyTest: key } = await createTestOrganization(db);
    const planted = await other.call("POST", "/plant/trees", { key, body: { count: 10 } });
    const donation = { key, body: { ein: EIN, amount_cents: 700 } };
    const donated = await other.call("POST", "/charities/donate", donation);
    const id = name === "refund" ? idIn(planted.body, "tree") : donated.body["donation_id"];
    const processes = { interrupted, other };

    await recordsOnce(
      t,
      {
        send: (process, idempotencyKey) =>
          processes[process].call("POST", path, {
            key,
            body: { ...body, id, idempotency_key: idempotencyKey },
          }),
        readState: async () => ({
          ...(await readAccountSums(db, accountId)),
          ...(await readDonationLedger(db, accountId)),
        }),
        loseResponse,
      },
      write,
    );
  });
}

/** What two writes change that together cost so many cents, of which one has a key. */
const spent = (cents: number) => {
  const sums = { balance: -cents, entrySum: -cents, lastBalance: -cents };
  return { ...sums, entries: 2, responses: 1 };
};

const STORE_WRITES = {
  registration: {
    path: "/app/api/plant",
    body: { trees: 3 },
    change: { ...spent(300), registrations: 2, remaining: 6, totals: 6 },
  },
  donation: {
    path: "/app/api/charity/donate",
    body: { charity_id: EIN, amount_dollars: 3 },
    change: { ...spent(600), donations: 2, count: 2, cents: 600 },
  },
  refund: {
    path: "/app/api/refund",
    body: { type: "tree", quantity: 3 },
    change: { ...spent(-300), remaining: -6, totals: -6 },
  },
};

for (const [name, { path, body, change }] of Object.entries(STORE_WRITES)) {
  test(`a store's ${name} whose commit is not confirmed is a 500, and its repeat gets the stored response`, async (t) => {
    const { db, databaseUrl } = t.context;
    const { url, loseResponse } = await startRelay(t, databaseUrl);
    const processes = {
      interrupted: await startStoreApi(t, { db: await openTestPool(t, url) }),
      other: await startStoreApi(t, { db }),
    };
    const store = await createTestStore(db, { balanceCents: 10_000 });
    await processes.other.post("/app/api/plant", store.live, { trees: 10 });

    await recordsOnce(
      t,
      {
        send: (process, key) => {
          const keyed = key === null ? {} : { "Idempotency-Key": key };
          return processes[process].post(path, { ...store.live, ...keyed }, body);
        },
        readState: async () => ({
          ...(await readStoreState(db, store.id)),
          ...(await readDonationLedger(db, store.id)),
        }),
        loseResponse,
      },
      { commit: "COMMIT", change },
    );
  });
}
