import type { DatabasePool } from "slonik";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { secondOf, SHARD_NUMBERS, shardOf, streamKey } from "../../../domain/billing/usage.ts";
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
      lastSecond,
      limit,
    });
    found.push(...part.streams);
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
