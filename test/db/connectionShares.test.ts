import { setImmediate as nextLoopIteration } from "node:timers/promises";
import {
  createConnectionShares,
  createReadShares,
  runForAccount,
  runForAll,
  sharesOfMixedPool,
  sharesOfOneKind,
} from "../../db/pools/connectionShares.ts";
import type { Claim } from "../../db/pools/connectionShares.ts";
import { sql } from "../../db/sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

/** Work that lasts until the test ends it, and a list of the work that has started. */
const createWork = (shares: ReturnType<typeof createConnectionShares>) => {
  const started: string[] = [];
  const ends: (() => void)[] = [];
  return {
    started,
    run: (name: string, claim: Claim): Promise<void> =>
      shares.run(claim, async () => {
        started.push(name);
        await new Promise<void>((resolve) => {
          ends.push(resolve);
        });
      }),
    /** Ends the work that started first. */
    endFirst: async (): Promise<void> => {
      ends.shift()?.();
      await nextLoopIteration();
    },
  };
};

const claimOf = (accountId: string, kind = "refund"): Claim => ({ accountId, kind });

test("an account has half of the accounts' connections for a kind, a kind two thirds of them", async (t) => {
  // Of ten connections, six are for accounts.
  const { run, started } = createWork(createConnectionShares(sharesOfMixedPool(10)));

  for (let index = 0; index < 20; index += 1) {
    void run("a", claimOf("a"));
    void run("b", claimOf("b"));
    void run("c", claimOf("c", "donation"));
  }
  await nextLoopIteration();

  t.deepEqual(started.toSorted(), ["a", "a", "b", "b", "c", "c"]);
});

test("accounts that wait take turns", async (t) => {
  // Of two connections, one is for accounts.
  const { run, started, endFirst } = createWork(createConnectionShares(sharesOfMixedPool(2)));

  for (const name of ["a1", "a2", "a3", "a4", "b1", "b2", "c1"]) {
    void run(name, claimOf(name.slice(0, 1)));
  }
  for (let index = 0; index < 6; index += 1) {
    await endFirst();
  }

  t.deepEqual(started, ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]);
});

test("work beyond the account's queue, and work that waited too long, is rejected", async (t) => {
  const shares = createConnectionShares(sharesOfMixedPool(2), {
    maximumWaiting: 1,
    maximumWaitMs: 1,
  });
  const { run, started, endFirst } = createWork(shares);
  const first = run("first", claimOf("a"));

  const waiting = run("waiting", claimOf("a"));
  await t.throwsAsync(run("beyond", claimOf("a")), { code: "queue_full" });
  await t.throwsAsync(waiting, { code: "queue_full" });

  t.is(shares.waitingCount(), 0);
  await endFirst();
  await first;
  t.deepEqual(started, ["first"]);
});

test("the pool has a connection for the service while accounts wait for theirs", async (t) => {
  const db = await openTestPool(t, t.context.databaseUrl, 3);
  const gate = Promise.withResolvers<null>();
  const held = Array.from({ length: 10 }, (_, index) =>
    runForAccount(claimOf(`account-${index}`, `kind-${index}`), () =>
      db.transaction(() => gate.promise),
    ),
  );

  // Also if an account's request has caused it.
  const found = await runForAccount(claimOf("another"), () =>
    runForAll(() => db.exists(sql.typeAlias("void")`SELECT FROM account`)),
  );

  t.is(typeof found, "boolean");
  // The connection of the service is returned a moment after its result.
  await eventually(() => db.state().acquiredConnections === 2);
  t.is(db.state().waitingClients, 8);
  gate.resolve(null);
  await Promise.all(held);
  t.is(db.state().waitingClients, 0);
});

const listOf = (owner: string): Claim => claimOf(owner, "list");

test("in a pool for one kind of work, owners take turns, and one owner never has the last connection", async (t) => {
  const shares = createConnectionShares(sharesOfOneKind(3));
  const { started, run, endFirst } = createWork(shares);
  const busy = Array.from({ length: 6 }, (_, index) => run(`busy ${index}`, listOf("busy")));
  await nextLoopIteration();
  t.deepEqual(started, ["busy 0", "busy 1"]);

  const others = ["a", "b", "c"].map((owner) => run(owner, listOf(owner)));
  await nextLoopIteration();
  t.deepEqual(started, ["busy 0", "busy 1", "a"]);
  await endFirst();
  t.deepEqual(started.slice(3), ["busy 2"], "it has waited longer than b");
  await endFirst();
  await endFirst();
  t.deepEqual(started.slice(4), ["b", "c"]);
  await endFirst();
  t.deepEqual(started.slice(6), ["busy 3"]);
  for (let left = 0; left < 6; left += 1) {
    await endFirst();
  }
  await Promise.all([...busy, ...others]);
  t.is(started.length, 9);
});

test("an owner with too much waiting work is rejected, and others are not", async (t) => {
  const shares = createConnectionShares(sharesOfOneKind(1), { maximumWaiting: 4 });
  const { run, endFirst } = createWork(shares);
  const accepted = [1, 2, 3].map(() => run("busy", listOf("busy")));
  await t.throwsAsync(run("busy", listOf("busy")), { instanceOf: DomainError });
  const other = run("other", listOf("other"));

  for (let left = 0; left < 4; left += 1) {
    await endFirst();
  }
  await t.notThrowsAsync(Promise.all([...accepted, other]));
});

test("work of one kind that has waited too long is rejected and never starts", async (t) => {
  const shares = createConnectionShares(sharesOfOneKind(1), { maximumWaitMs: 1 });
  const { started, run, endFirst } = createWork(shares);
  const first = run("first", listOf("owner"));

  const error = await t.throwsAsync<DomainError>(run("second", listOf("owner")));
  t.is(error?.code, "queue_full");
  await endFirst();
  await first;
  t.deepEqual(started, ["first"]);
});

const slowOf = (owner: string): Claim => ({ ...listOf(owner), isSlowRead: true });

test("slow reads have half of the connections, short ones all but the last, and both wait in turns", async (t) => {
  const shares = createReadShares(4, { maximumWaitMs: 60_000 });
  const { started, run, endFirst } = createWork(shares);
  const work = [
    ...["a", "a", "a", "b", "c"].map((owner) => run(`slow ${owner}`, slowOf(owner))),
    ...["a", "c", "d"].map((owner) => run(`short ${owner}`, listOf(owner))),
  ];
  await nextLoopIteration();
  t.deepEqual(started, ["slow a", "slow b", "short a"]);
  t.is(shares.waitingCount(), 5);

  await endFirst();
  await endFirst();
  t.deepEqual(started.slice(3), ["short c", "short d"], "they have waited longer for a connection");
  await endFirst();
  await endFirst();
  t.deepEqual(
    started.slice(5),
    ["slow a", "slow c"],
    "an account has the next turn after those of others",
  );
  for (let left = 0; left < 4; left += 1) {
    await endFirst();
  }
  await Promise.all(work);
  t.is(started.length, 8);
});

test("work that fails ends its turn", async (t) => {
  const shares = createConnectionShares(sharesOfOneKind(1));
  await t.throwsAsync(
    shares.run(listOf("owner"), () => Promise.reject(new Error("broken"))),
    { message: "broken" },
  );
  t.is(await shares.run(listOf("owner"), () => Promise.resolve("next")), "next");
});
