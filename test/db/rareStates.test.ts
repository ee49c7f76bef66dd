import type { DatabasePool } from "slonik";
import { z } from "zod";
import { releaseRefunds } from "../../modules/billing/meterEvents.sql.ts";
import { early } from "../../modules/billing/sending/decideNextStep.rules.ts";
import { beginAttempts, recordOutcomes } from "../../modules/billing/sending/attempts.sql.ts";
import { sql } from "../../db/sql.ts";
import {
  claimDeliveries,
  listDueEndpoints,
  recordAttempts,
} from "../../modules/events/attempts.sql.ts";
import { listDeliveries } from "../../modules/events/deliveries.sql.ts";
import type { ClaimedDelivery } from "../../modules/events/attempts.sql.ts";
import { insertDeliveries } from "../events/insertDeliveries.ts";
import { openPageCount } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

/*
 * Most rows of these tables are in a final state. The statistics are of a moment when all of them are, so that the indexes
 * of the others seem empty.
 */

const TABLES = ["meter_event", "usage_fact", "refund", "webhook_delivery", "webhook_endpoint"];
/** Accounts, with an endpoint each. */
const ROWS = 4000;
/** The index of unfinished events has 40 pages, its rows have 200, and the table has 600. */
const MAXIMUM_PAGES = 60;

const idRow = z.strictObject({ id: z.bigint() });
const uuidRow = z.strictObject({ id: z.uuid() });

const insertSettledRows = async (filler: DatabasePool): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    INSERT INTO account (id, type, name, created_at)
    SELECT gen_random_uuid(), 'organization', number::text, now()
    FROM generate_series(1, ${ROWS}::integer) AS number
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
    SELECT id, 'live', 'tree', second, 1, 1, id || '-' || second, 'ledger', 'delivered', now(), now()
    FROM account
    CROSS JOIN generate_series(1, 5) AS second
  `);
  // The planner expects as many facts of any event as these have.
  await filler.query(sql.typeAlias("void")`
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second, meter_event_id)
    SELECT account_id, mode, kind, nextval('usage_batch'), 1, second, id
    FROM (SELECT * FROM meter_event ORDER BY id LIMIT ${ROWS / 20}::integer) AS busy
    CROSS JOIN generate_series(1, 100)
  `);
  await filler.transaction(async (transaction) => {
    // The refunded registrations are not needed, nor are all refunds.
    await transaction.query(sql.typeAlias("void")`SET LOCAL session_replication_role = replica`);
    await transaction.query(sql.typeAlias("void")`
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, refund_id, quantity, second, meter_event_id)
      SELECT account_id, mode, kind, usage_batch, gen_random_uuid(), -1, second, meter_event_id FROM usage_fact
    `);
    // Fewer than their facts, so that reading all of them seems cheap.
    await transaction.query(sql.typeAlias("void")`
      INSERT INTO refund (id, registration_id, account_id, count, created_at, dispatched_at)
      SELECT id, id, id, 1, now(), now() FROM account
    `);
  });
  await filler.query(sql.typeAlias("void")`
    INSERT INTO webhook_endpoint (id, account_id, mode, url, description, secret, created_at)
    SELECT id, id, 'live', 'https://example.com', '', '', now() FROM account
  `);
  const ids = await filler.anyFirst(sql.type(uuidRow)`SELECT id FROM webhook_endpoint`);
  await insertDeliveries(filler, ids, 5, { state: "delivered" });
};

const insertOpenRows = async (filler: DatabasePool): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, attempts, sealed_at)
    SELECT id, 'live', 'tree', 9, 1, 1, id || '-9', 'stripe', 'pending', 1, now()
    FROM account
  `);
  await filler.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`SET LOCAL session_replication_role = replica`);
    await transaction.query(sql.typeAlias("void")`
      INSERT INTO refund (id, registration_id, account_id, count, created_at)
      SELECT gen_random_uuid(), id, id, 7, now() FROM account
    `);
  });
  const busy = await filler.anyFirst(sql.type(uuidRow)`
    SELECT id FROM webhook_endpoint ORDER BY id LIMIT 3
  `);
  await insertDeliveries(filler, busy, 1);
};

/** Inserts a refund that waits for one of the filled events, and returns that event's id. */
const insertWaitingRefund = (filler: DatabasePool): Promise<bigint> =>
  filler.oneFirst(sql.type(idRow)`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, state, failure, waits_for, sealed_at,
        settled_at
      )
    SELECT
      account_id, mode, kind, second, 2, -1, identifier || '-refund', processor, 'failed', 'waits_for_usage', id, now(),
      now()
    FROM meter_event
    WHERE second = 5
    ORDER BY id DESC
    LIMIT 1
    RETURNING waits_for AS id
  `);

const changedRow = z.strictObject({ delayed: z.int(), released: z.int() });

test("rows in a rare state are found by their ids, and endpoints by their pending deliveries", async (t) => {
  const { filler, db, vacuum, readAtMost } = await openPageCount(t, TABLES);
  await insertSettledRows(filler);
  await vacuum();
  await insertOpenRows(filler);
  const usageId = await insertWaitingRefund(filler);

  const ids = await filler.anyFirst(sql.type(idRow)`
    SELECT id FROM meter_event WHERE second = 9 ORDER BY id DESC LIMIT 3
  `);
  const [first = t.fail(), second = t.fail(), third = t.fail()] = ids.map((id) => ({
    id,
    attempts: 1,
  }));
  const now = new Date();
  const until = new Date(now.getTime() + 60_000);
  const [busy = ""] = await filler.anyFirst(sql.type(uuidRow)`
    SELECT id FROM webhook_endpoint ORDER BY id LIMIT 2
  `);
  const claimed: ClaimedDelivery[] = [];
  const settled = { kind: "settled", state: "delivered", failure: null, reason: null } as const;
  const failed = { status: 500, error: "status 500" };
  const attempt = { started_at: now.toISOString(), duration_ms: 5, ...failed };
  const decision = { state: "failed", dueAt: null } as const;
  const listDue = () => listDueEndpoints(db, { after: null, now: until, limit: 10 });
  // With how many rows each finds, if it says so.
  const works: Readonly<Record<string, readonly [() => Promise<unknown>, number?]>> = {
    "the start of an attempt": [
      () => db.transaction((transaction) => beginAttempts(transaction, [first.id], now)),
      1,
    ],
    "the outcomes of attempts": [
      () =>
        recordOutcomes(db, [
          { event: second, result: early("busy", 1000), now },
          { event: third, result: settled, now },
        ]),
      2,
    ],
    "the release of refunds": [() => releaseRefunds(db, [usageId])],
    "endpoints with due deliveries": [listDue, 3],
    "a claim of deliveries": [
      async () => {
        claimed.push(...(await claimDeliveries(db, [busy, busy], until)));
        return claimed;
      },
      1,
    ],
    "the record of attempts": [
      () =>
        recordAttempts(
          db,
          claimed.map((delivery) => ({ delivery, endedAt: now, attempt, decision })),
        ),
    ],
    "failed deliveries": [() => listDeliveries(db, busy, { state: "failed", limit: 10 }), 1],
  };
  for (const [name, [work, length]] of Object.entries(works)) {
    const found = await readAtMost(MAXIMUM_PAGES, work, name);
    if (length !== undefined) {
      t.like(found, { length }, name);
    }
  }
  // What was changed without a result.
  const changed = await filler.one(sql.type(changedRow)`
    SELECT
      (SELECT count(*)::integer FROM meter_event WHERE last_error = 'busy') AS delayed,
      (SELECT count(*)::integer FROM meter_event WHERE second = 5 AND state = 'pending') AS released
  `);
  t.deepEqual(changed, { delayed: 1, released: 1 });
});
