import { setImmediate as nextLoopIteration } from "node:timers/promises";
import { statusesOf } from "../api/contract.ts";
import test from "ava";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { GroupCommit, LOCKED } from "../../db/batching/groupCommit.ts";

type Entry = { readonly account: string; readonly number: number; readonly isBad?: boolean };

const entriesOf = (account: string, count: number): readonly Entry[] =>
  Array.from({ length: count }, (_, number) => ({ account, number }));

type Queue = GroupCommit<Entry, number>;

const createQueue = (write: ConstructorParameters<typeof GroupCommit<Entry, number>>[0]["write"]) =>
  new GroupCommit<Entry, number>({ write, accountOf: ({ account }) => account });

/** A queue whose batches are collected, and rejected if they contain a bad entry. */
const openQueue = () => {
  const batches: (readonly Entry[])[] = [];
  const queue = createQueue(async (batch) => {
    batches.push(batch);
    await Promise.resolve();
    if (batch.some(({ isBad }) => isBad)) {
      throw invalidRequest("bad");
    }
    return batch.map(({ number }) => number);
  });
  /** How many entries of the account each batch has. */
  const countsOf = (name: string): readonly number[] =>
    batches.map((batch) => batch.filter(({ account }) => account === name).length);
  return { queue, batches, countsOf };
};

const submitAll = (queue: Queue, entries: readonly Entry[]) =>
  Promise.all(entries.map((entry) => queue.submit(entry)));

const settleAll = (queue: Queue, entries: readonly Entry[]) =>
  Promise.allSettled(entries.map((entry) => queue.submit(entry)));

test("accounts with many entries share each batch equally, and the few of another are in the next one", async (t) => {
  const { queue, countsOf } = openQueue();

  const entries = [...entriesOf("a", 1000), ...entriesOf("b", 500), ...entriesOf("c", 10)];
  await submitAll(queue, entries);

  t.deepEqual(countsOf("a").slice(0, 2), [195, 200]);
  t.deepEqual(countsOf("b").slice(0, 2), [195, 200]);
  t.deepEqual(countsOf("c").slice(0, 2), [10, 0]);
});

test("with more accounts than a batch has places, each account has its turn before another has a second", async (t) => {
  const { queue, batches } = openQueue();
  const accounts = Array.from({ length: 600 }, (_, index) => `account-${index}`);

  const entries = accounts.flatMap((account) => entriesOf(account, 2));
  await submitAll(queue, entries);

  const order = batches.flat().map(({ account }) => account);
  t.is(new Set(order.slice(0, 600)).size, 600);
});

test("a bad entry splits the batch by account: no other account's entries are divided", async (t) => {
  const { queue, batches } = openQueue();
  const accounts = ["a", "b", "c", "d", "bad"];

  const entries = accounts
    .flatMap((account) => entriesOf(account, 40))
    .map((entry) =>
      Object.assign({ isBad: entry.account === "bad" && entry.number % 2 === 0 }, entry),
    );
  const results = await settleAll(queue, entries);

  t.is(results.filter(({ status }) => status === "rejected").length, 20);
  for (const batch of batches) {
    for (const account of accounts.filter((name) => name !== "bad")) {
      const count = batch.filter((entry) => entry.account === account).length;
      t.true(count === 0 || count === 40, `${account}: ${count}`);
    }
  }
});

test("the entries of an account stay in order when it is separated while more arrive", async (t) => {
  const { queue, batches } = openQueue();
  const submit = (number: number, isBad: boolean) =>
    queue.submit({ account: "a", number, isBad }).catch(() => null);
  const done: Promise<number | null>[] = [];

  for (let number = 0; number < 500; number += 1) {
    done.push(submit(number, number % 100 === 7));
    if (number % 50 === 0) {
      await nextLoopIteration();
    }
  }
  await Promise.all(done);

  const written = batches
    .filter((batch) => !batch.some(({ isBad }) => isBad))
    .flat()
    .map(({ number }) => number);
  t.is(written.length, 495);
  const sorted = written.toSorted((left, right) => left - right);
  t.deepEqual(written, sorted);
});

test("draining waits for separated entries too", async (t) => {
  const { queue } = openQueue();
  const bad = { account: "a", number: 5, isBad: true };
  const results = settleAll(queue, [...entriesOf("a", 5), bad]);

  await queue.drain();

  t.is(queue.queueLength(), 0);
  const statuses = (await results).map(({ status }) => status);
  t.is(statuses.filter((status) => status === "fulfilled").length, 5);
});

const deferred = () => Promise.withResolvers<undefined>();

test("while a job of an account runs, its entries wait and those of others do not", async (t) => {
  const { queue, countsOf } = openQueue();
  const { promise, resolve } = deferred();
  const started = deferred();
  const job = queue.runAlone("bulk", 1000, async () => {
    started.resolve(undefined);
    await promise;
    return "done";
  });
  await started.promise;

  const own = submitAll(queue, entriesOf("bulk", 3));
  await submitAll(queue, entriesOf("neighbor", 3));
  t.deepEqual(countsOf("bulk"), [0]);
  t.is(queue.queueLength(), 3);
  resolve(undefined);

  t.is(await job, "done");
  t.deepEqual(await own, [0, 1, 2]);
  t.is(queue.queueLength(), 0);
  await queue.drain();
});

test("a job starts when no batch with entries of its account is being written", async (t) => {
  const writing = deferred();
  const written = deferred();
  const order: string[] = [];
  const queue = createQueue(async (batch) => {
    writing.resolve(undefined);
    await written.promise;
    order.push("batch");
    return batch.map(({ number }) => number);
  });
  const single = queue.submit({ account: "bulk", number: 1 });
  await writing.promise;

  const job = queue.runAlone("bulk", 10, async () => {
    order.push("job");
    await Promise.resolve();
  });
  written.resolve(undefined);
  await Promise.all([single, job]);

  t.deepEqual(order, ["batch", "job"]);
});

test("jobs of several accounts take turns, and a job that fails fails alone", async (t) => {
  const { queue } = openQueue();
  const order: string[] = [];
  const run = (account: string, number: number) =>
    queue.runAlone(account, 1, async () => {
      await Promise.resolve();
      order.push(`${account}${number}`);
      if (number === 1) {
        throw invalidRequest("bad");
      }
    });

  const results = await Promise.allSettled([run("a", 1), run("a", 2), run("a", 3), run("b", 1)]);

  t.deepEqual(order, ["a1", "b1", "a2", "a3"]);
  t.deepEqual(statusesOf(results), ["rejected", "fulfilled", "fulfilled", "rejected"]);
});

test("the entries of a locked account are written alone and in their order, beside those of others", async (t) => {
  const unlocked = deferred();
  const written: string[] = [];
  const queue = createQueue(async (batch, { isAlone }) => {
    await (isAlone ? unlocked.promise : Promise.resolve());
    return batch.map(({ account, number }) => {
      if (account === "locked" && !isAlone) {
        return LOCKED;
      }
      written.push(`${account}${number}${isAlone ? " alone" : ""}`);
      return number;
    });
  });
  const submit = (account: string) => submitAll(queue, entriesOf(account, 2));

  const first = submit("locked");
  await submit("other");
  const job = queue.runAlone("locked", 1, () => Promise.resolve(written.push("job")));
  unlocked.resolve(undefined);
  t.deepEqual(await first, [0, 1]);
  await job;

  t.deepEqual(written, ["other0", "other1", "locked0 alone", "locked1 alone", "job"]);
  t.deepEqual(await submit("free"), [0, 1]);
  await queue.drain();
});
