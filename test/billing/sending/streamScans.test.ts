import type { DatabasePool } from "slonik";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { systemClock } from "../../../domain/clock.ts";
import { secondOf, streamKey } from "../../../domain/billing/usage.ts";
import { SHARD_NUMBERS, shardOf } from "../../../domain/shards.ts";
import { createStreamQueue } from "../../../services/billing/sending/createStreamQueue.ts";
import { createStreamScans } from "../../../services/billing/sending/createStreamScans.ts";
import type { ScanStreams } from "../../../services/billing/sending/createStreamScans.ts";
import { createRegistrationWriter } from "../../../services/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { createMovableClock } from "../../support/movableClock.ts";

const test = testWithDatabase();

const ACCOUNTS = 24;

/** Returns the pool, and how often it was asked for rows. */
const countQueries = (
  db: DatabasePool,
): { readonly db: DatabasePool; readonly count: () => number } => {
  let queries = 0;
  return {
    db: new Proxy(db, {
      get: (target, name) => {
        queries += name === "any" ? 1 : 0;
        return Reflect.get(target, name) as unknown;
      },
    }),
    count: () => queries,
  };
};

const newStream = (): UsageStream => ({
  accountId: crypto.randomUUID(),
  mode: "live",
  meter: "tree",
});

/** Returns all streams of a shard, in parts of a size. */
const scanAll = async (
  scanStreams: ScanStreams,
  shard: number,
  lastSecond: number,
  limit: number,
): Promise<readonly UsageStream[]> => {
  const found: UsageStream[] = [];
  let after: UsageStream | null = null;
  do {
    const part: Awaited<ReturnType<ScanStreams>> = await scanStreams({
      shard,
      after,
      second: lastSecond,
      limit,
    });
    found.push(...part.items);
    after = part.next;
  } while (after !== null);
  return found;
};

test("the shards of a worker share the query of a scan, and each stream is found by its shard only, in parts of any size", async (t) => {
  const clock = createMovableClock("2026-03-10T12:00:00.000Z");
  const writer = createRegistrationWriter({ db: t.context.db, clock });
  const accountIds: string[] = [];
  const register = async (): Promise<void> => {
    const { id } = await createTestOrganization(t.context.db, { clock });
    await writer.register(registrationOf(id, { count: 1 }));
    accountIds.push(id);
  };
  while (accountIds.length < ACCOUNTS) {
    await register();
  }
  const lastSecond = secondOf(clock.now());
  const { db, count } = countQueries(t.context.db);
  const scanStreams = createStreamScans(db);
  const scanShards = (limit: number) =>
    Promise.all(
      SHARD_NUMBERS.map(async (shard) => {
        const streams = await scanAll(scanStreams, shard, lastSecond, limit);
        t.true(streams.every(({ accountId }) => shardOf(accountId) === shard));
        return streams.map(streamKey);
      }),
    );
  const expected = (): readonly string[] =>
    accountIds.map((accountId) => streamKey({ accountId, mode: "live", meter: "tree" })).toSorted();

  t.deepEqual((await scanShards(1000)).flat().toSorted(), expected());
  t.is(count(), 1);
  // Only a new query can find it.
  await register();
  t.deepEqual((await scanShards(1000)).flat().toSorted(), expected());
  t.is(count(), 2);
  t.deepEqual((await scanShards(2)).flat().toSorted(), expected());
  t.is(count(), 3);
});

test("a stream that has more to send stays queued if an older scan does not have it", async (t) => {
  const { db } = t.context;
  const [scanned, behind] = [newStream(), newStream()];
  const queue = createStreamQueue({ db, clock: systemClock }, 0, () =>
    Promise.resolve({ items: [scanned], next: null }),
  );
  queue.add(behind);
  queue.add(scanned);
  queue.startScan();
  t.deepEqual((await queue.take(10)).streams, [scanned]);
  t.deepEqual((await queue.take(10)).streams, [behind]);
  t.true(queue.isEmpty());
});

test("a scan that fails is not shared", async (t) => {
  let failures = 1;
  const db = new Proxy(t.context.db, {
    get: (target, name) => {
      if (name === "any" && failures > 0) {
        failures -= 1;
        return () => Promise.reject(new Error("unreachable"));
      }
      return Reflect.get(target, name) as unknown;
    },
  });
  const scanStreams = createStreamScans(db);
  const scan = (shard: number) => scanStreams({ shard, after: null, second: 0, limit: 10 });
  await t.throwsAsync(scan(0), { message: "unreachable" });
  t.deepEqual(await scan(1), { items: [], next: null });
});

test("a stream does not rest for longer because the clock was set back", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-03-10T12:00:00.000Z");
  const stream = newStream();
  const queue = createStreamQueue({ db, clock }, 0, () =>
    Promise.resolve({ items: [], next: null }),
  );
  const take = async () => {
    queue.add(stream);
    return (await queue.take(10)).streams;
  };
  queue.rest(stream);
  t.deepEqual(await take(), []);
  clock.set("2026-03-10T11:00:00.000Z");
  t.deepEqual(await take(), [stream]);
});
