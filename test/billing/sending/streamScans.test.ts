import type { DatabasePool } from "slonik";
import { z } from "zod";
import { ownerKey } from "../../../modules/records/owner.rules.ts";
import type { Owner } from "../../../modules/records/owner.rules.ts";
import { sql } from "../../../db/sql.ts";
import { lastSealableSecond } from "../../../modules/billing/usage.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import { SHARD_NUMBERS, shardOf } from "../../../db/shards.rules.ts";
import {
  createStreamQueue,
  createStreamScans,
} from "../../../modules/billing/sending/createStreamQueue.ts";
import { createScanPace } from "../../../db/createScanPace.ts";
import { createShardScans } from "../../../db/createShardScans.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { createRestlessPace } from "./shardSetup.ts";

const test = testWithDatabase();

/** Three pages of a scan. */
const STREAMS = 1001;

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

const newClock = () => createMovableClock("2026-03-10T12:00:00.000Z");

const newStream = (): Owner => ({
  accountId: crypto.randomUUID(),
  mode: "live",
  kind: "tree",
});

const from = ({ accountId }: Owner, firstSecond: number) => ({ accountId, firstSecond });

const readyAt = (stream: Owner, second: number) => ({ ...stream, second });

/** Records a unit of each of new accounts in a second, and returns the accounts. */
const recordUsage = (db: DatabasePool, count: number, second: number): Promise<readonly string[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    WITH created AS (
      INSERT INTO account (id, type, name, created_at)
      SELECT gen_random_uuid(), 'organization', number::text, now()
      FROM generate_series(1, ${count}::integer) AS number
      RETURNING id
    )
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
    SELECT id, 'live', 'tree', nextval('usage_batch'), 1, ${second}
    FROM created
    RETURNING account_id AS id
  `);

test("the shards of a worker share a scan of all pages, and each stream is found by its shard only", async (t) => {
  const clock = newClock();
  const second = lastSealableSecond(clock.now());
  const { db, count } = countQueries(t.context.db);
  const { ready } = createStreamScans({ db, clock }, createRestlessPace);
  const scanShards = () =>
    Promise.all(
      SHARD_NUMBERS.map(async (shard) => {
        const streams = (await ready(shard)) ?? [];
        t.true(streams.every(({ accountId }) => shardOf(accountId) === shard));
        return streams.map(({ accountId }) => accountId);
      }),
    );
  const accountIds = [...(await recordUsage(t.context.db, 24, second))];
  const sorted = async () => (await scanShards()).flat().toSorted();

  t.deepEqual(await sorted(), accountIds.toSorted());
  t.is(count(), 1);
  // Only a new query can find it.
  accountIds.push(...(await recordUsage(t.context.db, 1, second)));
  t.deepEqual(await sorted(), accountIds.toSorted());
  t.is(count(), 2);
  accountIds.push(...(await recordUsage(t.context.db, STREAMS - accountIds.length, second)));
  t.deepEqual(await sorted(), accountIds.toSorted());
  t.is(count(), 5);
});

test("a scan is not shared with a shard that looks a second later, unless the next one is not due", async (t) => {
  const clock = newClock();
  let scanned = 0;
  let isDue = true;
  const scan = createShardScans({
    clock,
    pace: { isDue: () => isDue, scan: (work) => work() },
    list: () => Promise.resolve([(scanned += 1)]),
    idOf: () => "00",
  });
  t.deepEqual(await scan(0), [1]);
  t.deepEqual(await scan(1), []);
  clock.set("2026-03-10T12:00:01.000Z");
  t.deepEqual(await scan(0), [2]);
  isDue = false;
  t.is(await scan(0), null);
  clock.set("2026-03-10T12:00:02.000Z");
  t.is(await scan(0), null);
  t.deepEqual(await scan(1), []);
  t.is(scanned, 2);
});

test("scans that take long are made in their share of the time, or every ten seconds", async (t) => {
  let nowMs = 0;
  const pace = createScanPace(0.25, { monotonicMs: () => nowMs });
  const isDueAfter = (restMs: number): boolean => {
    nowMs += restMs;
    return pace.isDue();
  };
  const take = (durationMs: number) => async (): Promise<void> => {
    t.false(pace.isDue());
    nowMs += durationMs;
  };
  t.true(pace.isDue());
  await pace.scan(take(200));
  t.false(isDueAfter(599));
  t.true(isDueAfter(1));
  await pace.scan(take(3000));
  t.false(isDueAfter(6999));
  t.true(isDueAfter(1));
  await t.throwsAsync(
    pace.scan(() => take(10)().then(() => Promise.reject(new Error("unreachable")))),
  );
  t.true(isDueAfter(0));
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
  const { ready } = createStreamScans({ db, clock: newClock() }, createRestlessPace);
  await t.throwsAsync(ready(0), { message: "unreachable" });
  t.not(await ready(1), null);
});

test("streams are taken in the order in which they were added, whether a scan has them or not", async (t) => {
  const [scanned, behind, last, sent] = [newStream(), newStream(), newStream(), newStream()];
  const queue = createStreamQueue(newClock(), 0, {
    ready: () => Promise.resolve([readyAt(scanned, 5), readyAt(behind, 5), readyAt(sent, 5)]),
    resumable: () => Promise.resolve([last, sent]),
  });
  queue.add(behind, 4);
  // The scan may have begun before the event of a stream was sealed.
  await queue.scan(() => [ownerKey(sent)]);
  queue.add(scanned, 6);
  const taken = [...queue.take("live", 2), ...queue.take("live", 2)];
  t.deepEqual(taken.map(ownerKey).toSorted(), [scanned, behind, last].map(ownerKey).toSorted());
  t.is(taken.map(ownerKey)[0], ownerKey(behind));
  t.true(queue.isEmpty());
});

test("a stream is searched from the second of a scan or of its last event on, and after each scan from its beginning", async (t) => {
  const [scanned, behind] = [newStream(), newStream()];
  let streams: ReturnType<typeof readyAt>[] | null = [readyAt(scanned, 5)];
  const queue = createStreamQueue(newClock(), 0, {
    ready: () => Promise.resolve(streams),
    resumable: () => Promise.resolve([]),
  });
  const take = () =>
    queue.take("live", 10).map(({ accountId, firstSecond }) => ({ accountId, firstSecond }));
  queue.add(behind, 3);
  t.deepEqual(take(), [from(behind, 0)]);
  queue.add(behind, 3);
  t.deepEqual(take(), [from(behind, 3)]);
  queue.add(behind, 4);
  // A refund of older usage may have come.
  await queue.scan(() => []);
  t.deepEqual(take(), [from(behind, 0), from(scanned, 5)]);
  queue.add(behind, 4);
  queue.add(scanned, 6);
  t.deepEqual(take(), [from(behind, 4), from(scanned, 6)]);
  queue.add(scanned, 6);
  // No scan was due.
  streams = null;
  await queue.scan(() => []);
  t.deepEqual(take(), [from(scanned, 6)]);
  streams = [];
  await queue.scan(() => []);
  queue.add(scanned, 7);
  t.deepEqual(take(), [from(scanned, 0)]);
});

test("a stream is not paused for longer because the clock was set back", (t) => {
  const clock = newClock();
  const stream = newStream();
  const queue = createStreamQueue(clock, 0, {
    ready: () => Promise.resolve([]),
    resumable: () => Promise.resolve([]),
  });
  const take = () => {
    queue.add(stream, secondOf(clock.now()));
    return queue.take("live", 10).map(ownerKey);
  };
  queue.pause(stream);
  t.deepEqual(take(), []);
  clock.set("2026-03-10T11:00:00.000Z");
  t.deepEqual(take(), [ownerKey(stream)]);
});
