import type { DatabasePool } from "slonik";
import { listWaitingRefunds } from "../../modules/registrations/refunds.sql.ts";
import { idRow, sql } from "../../db/sql.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { readRefundState } from "../../modules/billing/registrationFacts.sql.ts";
import { readUsageReport } from "../../modules/registrations/readUsageReports.ts";
import { openPageCount } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

const test = testWithDatabase().serial;

const TABLES = ["registration", "refund", "usage_fact", "meter_event"];
/** Of one registration. To look each of them up reads 9,000 pages. */
const REFUNDS = 3000;
/** They are 41 to 73, depending on the plan for the first hundred refunds. */
const MAXIMUM_PAGES = 99;

/** Inserts a registration with refunds of one unit each that wait for their workflow. */
const insertRefunded = async (
  db: DatabasePool,
  accountId: string,
  refunds: number,
  createdAt = new Date("2026-11-01T00:00:00Z"),
): Promise<string> => {
  const time = createdAt.toISOString();
  const registrationId = await db.oneFirst(sql.type(idRow)`
    INSERT INTO registration
      (id, account_id, mode, kind, count, refunded_count, created_at, attribution, usage_batch)
    VALUES (gen_random_uuid(), ${accountId}, 'live', 'tree', ${refunds}, ${refunds}, ${time}, '', 7)
    RETURNING id
  `);
  await db.query(sql.typeAlias("void")`
    INSERT INTO refund (id, registration_id, account_id, count, created_at)
    SELECT
      gen_random_uuid(), ${registrationId}, ${accountId}, 1, ${time}::timestamptz + number * interval '1 minute'
    FROM generate_series(1, ${refunds}::integer) AS number
  `);
  return registrationId;
};

/**
 * Inserts the usage of a registration and its refunds: all in a delivered event but the newest refund's, which is in an event
 * of this state or in none.
 */
const insertUsage = async (db: DatabasePool, registrationId: string, state: string | null) => {
  await db.query(sql.typeAlias("void")`
    WITH event AS (
      INSERT INTO meter_event
        (
          account_id, mode, kind, second, sequence, quantity, identifier, processor, state, failure, sealed_at
        )
      SELECT
        account_id, mode, kind, extract(epoch FROM created_at), sequence, -1, id || '/' || sequence, 'ledger',
        given.state, CASE WHEN given.state = 'failed' THEN 'unclear' END, now()
      FROM registration
      CROSS JOIN (VALUES (1, 'delivered'), (2, ${state}::text)) AS given (sequence, state)
      WHERE registration.id = ${registrationId} AND given.state IS NOT NULL
      RETURNING id, sequence
    ),
    given AS (
      SELECT
        refund.id,
        1 + (row_number() OVER (ORDER BY refund.created_at DESC) = 1)::integer AS sequence
      FROM refund
      WHERE registration_id = ${registrationId}
      UNION ALL
      SELECT NULL, 1
    )
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, refund_id, quantity, second, meter_event_id)
    SELECT
      account_id, mode, kind, usage_batch, given.id, CASE WHEN given.id IS NULL THEN count ELSE -1 END,
      extract(epoch FROM created_at), event.id
    FROM given
    JOIN registration ON registration.id = ${registrationId}
    LEFT JOIN event ON event.sequence = given.sequence
  `);
};

/** Inserts registrations of one second with one refund each, whose usage is in an event of this state or in none. */
const insertRefundedTogether = async (
  db: DatabasePool,
  accountId: string,
  registrations: number,
  { second, state }: { readonly second: number; readonly state: string | null },
): Promise<readonly string[]> =>
  db.anyFirst(sql.type(idRow)`
    WITH registered AS (
      INSERT INTO registration (id, account_id, mode, kind, count, created_at, attribution, usage_batch)
      SELECT gen_random_uuid(), ${accountId}, 'live', 'tree', 1, to_timestamp(${second}), '', nextval('usage_batch')
      FROM generate_series(1, ${registrations}::integer)
      RETURNING *
    ),
    event AS (
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, failure, sealed_at)
      SELECT
        ${accountId}, 'live', 'tree', ${second}, 1, -1, ${`${accountId}/${second}`}, 'ledger', given.state,
        CASE WHEN given.state = 'failed' THEN 'refused' END, now()
      FROM (VALUES (${state}::text)) AS given (state)
      WHERE given.state IS NOT NULL
      RETURNING id
    ),
    refunded AS (
      INSERT INTO refund (id, registration_id, account_id, count, created_at)
      SELECT gen_random_uuid(), id, account_id, 1, created_at
      FROM registered
      RETURNING id, registration_id
    ),
    recorded AS (
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, refund_id, quantity, second, meter_event_id)
      SELECT account_id, mode, kind, usage_batch, refunded.id, -1, ${second}, event.id
      FROM refunded
      JOIN registered ON registered.id = refunded.registration_id
      LEFT JOIN event ON true
    )
    SELECT id FROM registered ORDER BY id
  `);

test("the state of a registration's refunds, and of its usage, is found without reading all of them", async (t) => {
  const { filler, db, vacuum, readAtMost } = await openPageCount(t, TABLES);
  const { id: accountId } = await createTestOrganization(filler);
  const given = [
    ["delivered", "settled", "corrected"],
    ["closed", "settled", "closed"],
    ["failed", "failed", "failed"],
    ["pending", "pending", "pending"],
    [null, "pending", "pending"],
  ] as const;
  const ids: string[] = [];
  for (const [index, [eventState]] of given.entries()) {
    const createdAt = new Date(Date.UTC(2026, 10, 1, 0, 0, index));
    const id = await insertRefunded(filler, accountId, REFUNDS, createdAt);
    await insertUsage(filler, id, eventState);
    ids.push(id);
  }
  // As in any database, most registrations with a refund have only one.
  const others = { second: Date.UTC(2026, 8, 1) / 1000, state: "delivered" };
  await insertRefundedTogether(filler, accountId, 1000, others);
  await vacuum();

  const owner = { accountId, mode: "live" } as const;
  const billing = createBilling({ db, stripe: null });
  for (const [index, [, state, usage]] of given.entries()) {
    const id = ids[index] ?? "";
    t.is(await readAtMost(MAXIMUM_PAGES, () => readRefundState(db, id), state), state);
    const read = () => readUsageReport({ db, billing }, owner, id, ["tree"]);
    t.is((await readAtMost(MAXIMUM_PAGES, read, usage)).state, usage);
  }
});

test("the state of a registration's refund is found without reading the refunds of others of its second", async (t) => {
  const { filler, vacuum, readAtMost } = await openPageCount(t, TABLES);
  const { id: accountId } = await createTestOrganization(filler);
  const given = [
    [null, "pending"],
    ["pending", "pending"],
    ["failed", "failed"],
  ] as const;
  const idsOf: (readonly string[])[] = [];
  for (const [index, [eventState]] of given.entries()) {
    const together = { second: Date.UTC(2026, 9, 1) / 1000 + index, state: eventState };
    idsOf.push(await insertRefundedTogether(filler, accountId, 1000, together));
  }
  await vacuum();

  for (const [index, [, state]] of given.entries()) {
    const check = async (db: DatabasePool): Promise<void> => {
      for (const id of idsOf[index]?.slice(0, 20) ?? t.fail()) {
        t.is(await readRefundState(db, id), state);
      }
    };
    await readAtMost(20 * MAXIMUM_PAGES, check, state);
  }
});

test("refunds of a registration that was deleted are settled", async (t) => {
  t.is(await readRefundState(t.context.db, crypto.randomUUID()), "settled");
});

test("the oldest waiting refunds are listed by registration", async (t) => {
  const { filler, vacuum, readAtMost } = await openPageCount(t, TABLES, ["refund"]);
  await filler.query(sql.typeAlias("void")`UPDATE refund SET dispatched_at = now()`);
  const { id: accountId } = await createTestOrganization(filler);
  const bulkId = await insertRefunded(filler, accountId, REFUNDS);
  const earlier = new Date("2026-10-01T00:00:00Z");
  const earlierId = await insertRefunded(filler, accountId, 20, earlier);
  await vacuum();

  const waiting = await readAtMost(MAXIMUM_PAGES, (db) => listWaitingRefunds(db, 60));
  const counts = new Map(waiting.map(({ registrationId, ids }) => [registrationId, ids.length]));
  t.deepEqual([counts.size, counts.get(earlierId), counts.get(bulkId)], [2, 20, 40]);
});
