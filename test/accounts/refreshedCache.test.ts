import test from "ava";
import { createLookups } from "../../db/batching/joinCalls.ts";
import { createRefreshedCache } from "../../modules/accounts/createRefreshedCache.ts";

/** A cache of values whose lookups the test answers, on a clock of its own. */
const createScene = () => {
  const clock = { nowMs: 1 };
  const lookups: { readonly name: string; readonly answer: PromiseWithResolvers<string | null> }[] =
    [];
  let onLookup = Promise.withResolvers<void>();
  const cache = createRefreshedCache<string>(
    (name) => {
      const answer = Promise.withResolvers<string | null>();
      lookups.push({ name, answer });
      onLookup.resolve();
      return answer.promise;
    },
    () => clock.nowMs,
  );
  return {
    cache,
    clock,
    lookups,
    /** Resolves when something is looked up from now on. */
    nextLookup: () => {
      // The cache's timer does not keep the process running.
      const running = setInterval(() => {}, 1000);
      onLookup = Promise.withResolvers<void>();
      return onLookup.promise.finally(() => clearInterval(running));
    },
    readFirst: async (name: string, value: string) => {
      const read = cache.read(name);
      lookups.at(-1)?.answer.resolve(value);
      await read;
    },
  };
};

const settle = () => new Promise(setImmediate);

test("a value in use is refreshed once before it expires, and no reader waits for it", async (t) => {
  const { cache, clock, lookups, nextLookup, readFirst } = createScene();
  await readFirst("key", "first");

  clock.nowMs += 999;
  t.is(cache.find("key"), "first");
  clock.nowMs += 1;
  const refreshed = nextLookup();
  t.is(cache.find("key"), "first");
  t.is(cache.find("key"), "first");
  await refreshed;
  t.is(cache.find("key"), "first");
  t.is(lookups.length, 2);
  clock.nowMs += 500;
  lookups[1]?.answer.resolve("second");
  await settle();

  t.is(cache.find("key"), "second");
  // Its time counts from the start of the lookup.
  clock.nowMs += 1499;
  t.is(cache.find("key"), "second");
  clock.nowMs += 2;
  t.is(cache.find("key"), null);
});

test("an unused value is not refreshed", async (t) => {
  const { cache, clock, lookups, nextLookup, readFirst } = createScene();
  await readFirst("idle", "value");
  await readFirst("busy", "value");

  clock.nowMs += 1500;
  const refreshed = nextLookup();
  cache.find("busy");
  await refreshed;

  t.deepEqual(
    lookups.map(({ name }) => name),
    ["idle", "busy", "busy"],
  );
  clock.nowMs += 501;
  t.is(cache.find("idle"), null);
});

test("a value that no longer exists is gone as soon as it is read again", async (t) => {
  const { cache, clock, lookups, nextLookup, readFirst } = createScene();
  await readFirst("key", "value");

  clock.nowMs += 1500;
  const refreshed = nextLookup();
  cache.find("key");
  await refreshed;
  lookups[1]?.answer.resolve(null);
  await settle();

  t.is(cache.find("key"), null);
});

test("a value that cannot be read again expires, and the next reader gets the error", async (t) => {
  const { cache, clock, lookups, nextLookup, readFirst } = createScene();
  await readFirst("key", "value");

  clock.nowMs += 1500;
  const refreshed = nextLookup();
  cache.find("key");
  await refreshed;
  lookups[1]?.answer.reject(new Error("no connection"));
  await settle();
  clock.nowMs += 500;
  t.is(cache.find("key"), "value");
  clock.nowMs += 1;
  t.is(cache.find("key"), null);
  const read = cache.read("key");
  lookups[2]?.answer.reject(new Error("no connection"));
  await t.throwsAsync(read, { message: "no connection" });
});

test("a reader does not join a lookup that is running, whose result may be older than the request", async (t) => {
  const clock = { nowMs: 1 };
  const queries: ((value: string | null) => void)[] = [];
  const cache = createRefreshedCache(
    createLookups(async ([name = ""]) => {
      const answer = Promise.withResolvers<string | null>();
      queries.push(answer.resolve);
      const value = await answer.promise;
      return new Map(value === null ? [] : [[name, value]]);
    }),
    () => clock.nowMs,
  );
  const early = cache.read("key");
  await settle();
  clock.nowMs += 3000;
  const late = cache.read("key");
  await settle();
  t.is(queries.length, 2);
  queries[0]?.("revoked since");

  t.is(await early, "revoked since");
  t.is(cache.find("key"), null);
  queries[1]?.(null);
  t.is(await late, null);
});
