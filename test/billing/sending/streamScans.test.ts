import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { lastSealableSecond } from "../../../modules/billing/usage.rules.ts";
import { createStreamScan } from "../../../modules/billing/sending/createUsageSender.ts";
import { createScan } from "../../../db/createScan.ts";
import { countCalls } from "../../support/countCalls.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { stoppedClock } from "./sendingSetup.ts";

const test = testWithDatabase();

/** Three pages of a scan. */
const STREAMS = 1001;

const newClock = () => createMovableClock("2026-03-10T12:00:00.000Z");

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

test("a scan reads all pages, and finds each stream once", async (t) => {
  const clock = newClock();
  const second = lastSealableSecond(clock.now());
  const { db, count } = countCalls(t.context.db);
  const scan = createStreamScan({ db, clock }, stoppedClock);
  const accountIds = await recordUsage(t.context.db, STREAMS, second);

  const found = (await scan())?.map(({ accountId }) => accountId).toSorted();

  t.deepEqual(found, accountIds.toSorted());
  t.is(count(), 4);
});

test("scans that take long are made in their share of the time, or every ten seconds; one that fails is repeated at once", async (t) => {
  let nowMs = 0;
  let durationMs = 200;
  let failure: Error | null = null;
  const scan = createScan(
    newClock(),
    () => {
      nowMs += durationMs;
      return failure === null ? Promise.resolve([1]) : Promise.reject(failure);
    },
    { share: 0.25, monotonicMs: () => nowMs },
  );
  const scanAfter = (restMs: number) => {
    nowMs += restMs;
    return scan();
  };
  t.deepEqual(await scan(), [1]);
  t.is(await scanAfter(599), null);
  durationMs = 3000;
  t.deepEqual(await scanAfter(1), [1]);
  t.is(await scanAfter(6999), null);
  failure = new Error("unreachable");
  await t.throwsAsync(scanAfter(1), { message: "unreachable" });
  failure = null;
  t.deepEqual(await scan(), [1]);
});
