import type { ExecutionContext } from "ava";
import type { DatabaseTransactionConnection } from "slonik";
import { sql } from "../../db/sql.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { readStoreState } from "../stores/storeState.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { awaitBlocked, awaitGone, endsOrBlocks } from "../support/lockWaits.ts";
import { startProgram } from "../support/programs.ts";
import { idIn } from "./contract.ts";
import { parseBody } from "./responseChecker.ts";

/*
 * An API process is killed while the refunds of an organization and of a store are provably under way: they wait for locks
 * of the test. Then they are repeated with their keys at another process.
 */
const test = testWithDatabase();

type Program = Awaited<ReturnType<typeof startProgram>>;

const post = async (
  url: string | undefined,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: unknown,
) => {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return {
    status: response.status,
    isReplayed: response.headers.get("Idempotent-Replayed") === "true",
    body: parseBody(await response.text()),
  };
};

/** Registers ten trees of an organization and ten of a store. Returns how three of each are refunded, and what is recorded. */
const register = async ({ context: { db } }: ExecutionContext<DatabaseContext>, api: Program) => {
  const { id: accountId, apiKeyProd } = await createTestOrganization(db);
  const store = await createTestStore(db, { balanceCents: 1000 });
  const organization = { Authorization: apiKeyProd };
  const planted = await post(api.urls["standalone"], "/plant/trees", organization, { count: 10 });
  await post(api.urls["store"], "/app/api/plant", store.live, { trees: 10 });
  const id = idIn(planted.body, "tree");
  return {
    accountIds: [accountId, store.id],
    refund: ({ urls }: Program) =>
      Promise.all([
        post(urls["standalone"], "/refund/trees", organization, {
          id,
          count: 3,
          idempotency_key: "return-1",
        }),
        post(
          urls["store"],
          "/app/api/refund",
          { ...store.live, "Idempotency-Key": "return-1" },
          { type: "tree", quantity: 3 },
        ),
      ]),
    readSums: async () => {
      const { refunded, total, usage, facts } = await readAccountSums(db, accountId);
      const { balance, entries, remaining, totals, responses } = await readStoreState(db, store.id);
      return {
        organization: { refunded, total, usage, facts },
        store: { balance, entries, remaining, totals, responses },
      };
    },
  };
};

const NOT_REFUNDED = {
  organization: { refunded: 0n, total: 10n, usage: 10n, facts: 1 },
  store: { balance: 500, entries: 2, remaining: 10, totals: 10, responses: 0 },
};

const REFUNDED_ONCE = {
  organization: { refunded: 3n, total: 7n, usage: 7n, facts: 2 },
  store: { balance: 650, entries: 3, remaining: 7, totals: 7, responses: 1 },
};

const killDuringRefunds = async (
  t: ExecutionContext<DatabaseContext>,
  {
    takeLocks,
    isRecorded,
  }: {
    readonly takeLocks: (
      transaction: DatabaseTransactionConnection,
      accountIds: readonly string[],
    ) => Promise<unknown>;
    readonly isRecorded: boolean;
  },
) => {
  const { db, databaseUrl } = t.context;
  // Refunds do not need Temporal.
  const settings = { DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS: "127.0.0.1:1" };
  const victim = await startProgram(t, "api/main.ts", settings);
  const other = await startProgram(t, "api/main.ts", settings);
  const { accountIds, refund, readSums } = await register(t, victim);
  t.deepEqual(await readSums(), NOT_REFUNDED);

  const waiting = await db.transaction(async (transaction) => {
    await takeLocks(transaction, accountIds);
    const lost = t.throwsAsync(refund(victim));
    t.false(await endsOrBlocks(transaction, lost, 2));
    const pids = await awaitBlocked(transaction);
    await victim.kill();
    await lost;
    return pids;
  });
  await awaitGone(db, waiting);
  t.deepEqual(await readSums(), isRecorded ? REFUNDED_ONCE : NOT_REFUNDED);

  for (const isReplayed of [isRecorded, true]) {
    for (const response of await refund(other)) {
      t.like(response, { status: 200, isReplayed });
    }
    t.deepEqual(await readSums(), REFUNDED_ONCE);
  }
};

// Serial, because the other test's trigger makes every commit of a refund wait.
test.serial(
  "refunds whose API is killed before they commit are not recorded, and a repeat records each once",
  (t) =>
    killDuringRefunds(t, {
      takeLocks: (transaction, accountIds) =>
        transaction.query(sql.typeAlias("void")`
        SELECT FROM impact_total WHERE account_id = ANY(${sql.array([...accountIds], "uuid")}) FOR UPDATE
      `),
      isRecorded: false,
    }),
);

test.serial(
  "refunds whose API is killed while they commit are recorded, and a repeat returns each",
  async (t) => {
    const { owner } = t.context;
    // Deferred, so that a commit waits for the lock that the test holds.
    await owner.query(sql.typeAlias("void")`
    CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock_shared(1);
      RETURN NULL;
    END
    $$
  `);
    await owner.query(sql.typeAlias("void")`
    CREATE CONSTRAINT TRIGGER wait_for_test
    AFTER INSERT ON refund
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION wait_for_test()
  `);
    t.teardown(() => owner.query(sql.typeAlias("void")`DROP FUNCTION wait_for_test CASCADE`));
    await killDuringRefunds(t, {
      takeLocks: (transaction) =>
        transaction.query(sql.typeAlias("void")`SELECT FROM pg_advisory_xact_lock(1)`),
      isRecorded: true,
    });
  },
);
