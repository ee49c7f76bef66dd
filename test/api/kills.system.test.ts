import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { EIN, readDonationLedger } from "../charities/donations/donationSetup.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { readStoreState } from "../stores/storeState.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { awaitGone, endsOrBlocks, listBlocked } from "../support/lockWaits.ts";
import { startProgram } from "../support/programs.ts";
import { idIn } from "./contract.ts";

/*
 * API processes are killed while their writes are provably under way: they wait for locks of the test. Then the writes are
 * repeated with their keys at another process.
 */
// Serial, because a test's trigger makes every commit wait.
const test = testWithDatabase().serial;

type Context = DatabaseTest;
type Program = Awaited<ReturnType<typeof startProgram>>;
type HeaderValues = Readonly<Record<string, string>>;

const batch = z.object({ results: z.array(z.object({ idempotent_replayed: z.boolean() })) });

const post = async (url: string, headers: HeaderValues, body: unknown) => {
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const results = batch.safeParse(JSON.parse(text)).data?.results;
  const isReplayed =
    results?.every((result) => result.idempotent_replayed) ??
    response.headers.get("Idempotent-Replayed") === "true";
  return { status: response.status, isReplayed, text };
};

/** Requests with keys, and what is recorded of them. */
type Write = {
  readonly requests: readonly ((program: Program) => ReturnType<typeof post>)[];
  /** Whether it is one statement, which the server may commit although the process is gone. */
  readonly isOneStatement?: boolean;
  /** Returns how many of the requests are recorded, by the sums of what each table has, which must agree. */
  readonly countRecorded: (t: Context) => Promise<number>;
};

const BATCH = 1000;

const treeBatch = async ({ context: { db } }: Context): Promise<Write> => {
  const { id, apiKeyProd } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total) VALUES (${id}, 'live', 'tree', 'all', 0)
  `);
  const items = Array.from({ length: BATCH }, (_, index) => ({
    count: 2,
    idempotency_key: `order-${index}`,
  }));
  return {
    requests: [
      ({ urls }) =>
        post(`${urls["standalone"]}/plant/trees/batch`, { Authorization: apiKeyProd }, { items }),
    ],
    isOneStatement: true,
    countRecorded: async (t) => {
      const sums = await readAccountSums(db, id);
      const units = BigInt(sums.registrations) * 2n;
      t.like(sums, { registered: units, total: units, usage: units, facts: units === 0n ? 0 : 1 });
      return sums.registrations / BATCH;
    },
  };
};

const donationBatch = async ({ context: { db } }: Context): Promise<Write> => {
  const { id, apiKeyTest } = await createTestOrganization(db);
  const insert = sql.typeAlias("void")`INSERT INTO donor (account_id, mode) VALUES (${id}, 'test')`;
  await db.query(insert);
  const items = Array.from({ length: BATCH }, (_, index) => ({
    amount_cents: 2,
    ein: EIN,
    idempotency_key: `gift-${index}`,
  }));
  return {
    requests: [
      ({ urls }) =>
        post(
          `${urls["standalone"]}/charities/donate/batch`,
          { Authorization: apiKeyTest },
          { items },
        ),
    ],
    countRecorded: async (t) => {
      const ledger = await readDonationLedger(db, id);
      t.like(ledger, { count: ledger.donations, cents: 2 * ledger.donations });
      return ledger.donations / BATCH;
    },
  };
};

const refund = async ({ context: { db } }: Context, { urls }: Program): Promise<Write> => {
  const { id: accountId, apiKeyProd } = await createTestOrganization(db);
  const headers = { Authorization: apiKeyProd };
  const { text } = await post(`${urls["standalone"]}/plant/trees`, headers, { count: 10 });
  const id = idIn(z.looseObject({}).parse(JSON.parse(text)), "tree");
  const body = { id, count: 3, idempotency_key: "return-1" };
  return {
    requests: [(program) => post(`${program.urls["standalone"]}/refund/trees`, headers, body)],
    countRecorded: async (t) => {
      const { refunded, total, usage, facts } = await readAccountSums(db, accountId);
      t.deepEqual([total, usage], [10n - refunded, 10n - refunded]);
      t.is(facts, refunded === 0n ? 1 : 2);
      return Number(refunded) / 3;
    },
  };
};

const PLANTINGS = 50;

const storePlantings = async ({ context: { db } }: Context, { urls }: Program): Promise<Write> => {
  const store = await createTestStore(db, { balanceCents: 10_000 });
  const plant = (url: string | undefined, key: string) =>
    post(`${url}/app/api/plant`, { ...store.live, "Idempotency-Key": key }, { trees: 1 });
  await plant(urls["store"], "before");
  return {
    requests: Array.from(
      { length: PLANTINGS },
      (_, index) => (program: Program) => plant(program.urls["store"], `key-${index}`),
    ),
    countRecorded: async (t) => {
      const state = await readStoreState(db, store.id);
      const { registrations } = state;
      t.like(state, {
        balance: 10_000 - 50 * registrations,
        remaining: registrations,
        totals: registrations,
        responses: registrations,
        entries: 1 + registrations,
        brokenLinks: 0,
      });
      return registrations - 1;
    },
  };
};

const storeRefund = async ({ context: { db } }: Context, { urls }: Program): Promise<Write> => {
  const store = await createTestStore(db, { balanceCents: 1000 });
  await post(`${urls["store"]}/app/api/plant`, store.live, { trees: 10 });
  const headers = { ...store.live, "Idempotency-Key": "return-1" };
  const body = { type: "tree", quantity: 3 };
  return {
    requests: [(program) => post(`${program.urls["store"]}/app/api/refund`, headers, body)],
    countRecorded: async (t) => {
      const { balance, entries, remaining, totals, responses } = await readStoreState(db, store.id);
      t.deepEqual(
        { balance, entries, remaining, totals },
        {
          balance: 500 + 150 * responses,
          entries: 2 + responses,
          remaining: 10 - 3 * responses,
          totals: 10 - 3 * responses,
        },
      );
      return responses;
    },
  };
};

const killDuringWrites = async (
  t: Context,
  {
    takeLocks,
    isRecorded,
  }: {
    readonly takeLocks: (transaction: DatabaseTransactionConnection) => Promise<unknown>;
    readonly isRecorded: boolean;
  },
) => {
  const { db, databaseUrl } = t.context;
  // None of the writes needs Temporal.
  const start = () =>
    startProgram(t, "api/main.ts", { DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS: "127.0.0.1:1" });
  // A process writes for stores in one transaction at a time.
  const [victim, refunding, other] = [await start(), await start(), await start()];
  const writes = [
    { program: victim, ...(await treeBatch(t)) },
    { program: victim, ...(await donationBatch(t)) },
    { program: victim, ...(await storePlantings(t, other)) },
    { program: refunding, ...(await refund(t, other)) },
    { program: refunding, ...(await storeRefund(t, other)) },
  ];

  const waiting = await db.transaction(async (transaction) => {
    await takeLocks(transaction);
    const sent = Promise.allSettled(
      writes.flatMap(({ program, requests }) => requests.map((send) => send(program))),
    );
    t.false(await endsOrBlocks(transaction, sent, writes.length));
    const pids = await listBlocked(transaction);
    await Promise.all([victim.kill(), refunding.kill()]);
    t.true((await sent).every(({ status }) => status === "rejected"));
    return pids;
  });
  await awaitGone(db, waiting);

  for (const { requests, countRecorded, isOneStatement = false } of writes) {
    const recorded = await countRecorded(t);
    t.true(isOneStatement || recorded > 0 === isRecorded);
    const repeat = () => Promise.all(requests.map((send) => send(other)));
    const repeated = await repeat();
    t.true(repeated.every(({ status }) => status === 200));
    t.is(repeated.filter(({ isReplayed }) => isReplayed).length, recorded);
    t.is(await countRecorded(t), requests.length);
    t.true((await repeat()).every(({ status, isReplayed }) => status === 200 && isReplayed));
    t.is(await countRecorded(t), requests.length);
  }
};

test("writes whose API is killed before they commit are not recorded, and a repeat records each once", (t) =>
  killDuringWrites(t, {
    takeLocks: async (transaction) => {
      await transaction.query(sql.typeAlias("void")`SELECT FROM impact_total FOR UPDATE`);
      await transaction.query(sql.typeAlias("void")`SELECT FROM donor FOR UPDATE`);
    },
    isRecorded: false,
  }));

test("writes whose API is killed while they commit are recorded, and a repeat returns each", async (t) => {
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
  for (const table of ["registration", "donation", "refund"]) {
    await owner.query(sql.typeAlias("void")`
        CREATE CONSTRAINT TRIGGER wait_for_test
        AFTER INSERT ON ${sql.identifier([table])}
        DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION wait_for_test()
      `);
  }
  t.teardown(() => owner.query(sql.typeAlias("void")`DROP FUNCTION wait_for_test CASCADE`));
  await killDuringWrites(t, {
    takeLocks: (transaction) =>
      transaction.query(sql.typeAlias("void")`SELECT FROM pg_advisory_xact_lock(1)`),
    isRecorded: true,
  });
});
