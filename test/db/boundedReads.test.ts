import type { DatabasePool } from "slonik";
import { z } from "zod";
import { findRegistrationUsage } from "../../modules/registrations/registrationUsage.sql.ts";
import { listRefundsByKeys } from "../../modules/registrations/refunds.sql.ts";
import { idRow, sql } from "../../db/sql.ts";
import { openPageCount } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import {
  listMeterEvents,
  countUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { listBalanceEntries } from "../../modules/stores/balances.sql.ts";

const test = testWithDatabase().serial;

// The tests are serial, because the statistics and the reads of one would be those of the other.

const MAXIMUM_PAGES = 60;

/** Their facts have 40 pages. */
const REFUNDS = 3000;
/** Of 63 to 66, planning reads 46 in its first execution. Without the search by refund, it was more than 178. */
const MAXIMUM_USAGE_PAGES = 80;

test("the usage of a refunded registration is found by its refunds where statistics know of none", async (t) => {
  const tables = ["registration", "usage_fact", "refund"];
  const { filler, db, vacuum, readAtMost } = await openPageCount(t, tables);
  const { id: accountId } = await createTestOrganization(db);
  await filler.query(sql.typeAlias("void")`
    WITH registered AS (
      INSERT INTO registration (id, account_id, mode, kind, count, created_at, usage_batch)
      SELECT gen_random_uuid(), ${accountId}, 'live', 'tree', 1, '2026-11-01', nextval('usage_batch')
      FROM generate_series(1, ${REFUNDS}::integer)
      RETURNING *
    )
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
    SELECT account_id, mode, kind, usage_batch, 1, extract(epoch FROM created_at)::bigint FROM registered
  `);
  await vacuum();
  await filler.query(sql.typeAlias("void")`
    WITH new_refund AS (
      INSERT INTO refund (id, registration_id, account_id, count, created_at)
      SELECT gen_random_uuid(), id, account_id, 1, now() FROM registration WHERE account_id = ${accountId}
      RETURNING *
    )
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, refund_id, quantity, second)
    SELECT registration.account_id, mode, kind, usage_batch, new_refund.id, -1, extract(epoch FROM registration.created_at)::bigint
    FROM new_refund
    JOIN registration ON registration.id = registration_id
  `);
  const id = await db.oneFirst(sql.type(idRow)`
    SELECT id FROM registration WHERE account_id = ${accountId} LIMIT 1
  `);
  const owner = { accountId, mode: "live", kind: "tree" } as const;

  const usage = await readAtMost(MAXIMUM_USAGE_PAGES, () => findRegistrationUsage(db, owner, id));
  t.deepEqual(usage?.states, ["unsealed"]);
});

/** Of one refund, and what planning reads in its first execution. The table has 260. */
const MAXIMUM_REFUND_PAGES = 40;

test("a thousand keys of refunds, of which one is known, read one refund", async (t) => {
  const tables = ["refund", "idempotency_key"];
  const { filler, db, vacuum, readAtMost } = await openPageCount(t, tables, ["refund"]);
  const { id: accountId } = await createTestOrganization(db);
  await filler.transaction(async (transaction) => {
    // The refunded registrations are not needed.
    await transaction.query(sql.typeAlias("void")`SET LOCAL session_replication_role = replica`);
    await transaction.query(sql.typeAlias("void")`
      WITH refund AS (
        INSERT INTO refund (id, registration_id, account_id, count, created_at, dispatched_at)
        SELECT gen_random_uuid(), gen_random_uuid(), ${accountId}, 1, now(), now()
        FROM generate_series(1, 20000)
        RETURNING *
      )
      INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
      SELECT
        idempotency_key_hash((SELECT idempotency_secret FROM deployment), account_id, 'live', 'refund_plant', id::text), account_id, 'live', 'refund_plant', id
      FROM refund
    `);
  });
  await vacuum();
  const [known = ""] = await filler.anyFirst(sql.type(z.strictObject({ key: z.string() }))`
    SELECT id::text AS key FROM refund WHERE account_id = ${accountId} LIMIT 1
  `);
  const keys = [known, ...Array.from({ length: 999 }, () => crypto.randomUUID())];
  const owner = { accountId, mode: "live", kind: "tree" } as const;

  const named = keys.map((idempotencyKey) => Object.assign({ idempotencyKey }, owner));
  const list = () => listRefundsByKeys(db, named, false);
  const found = await readAtMost(MAXIMUM_REFUND_PAGES, list);
  t.is(found.size, 1);
});

const LISTED_TABLES = ["balance_entry", "audit_entry", "planting_order", "meter_event"];

/** Inserts rows of accounts in turn into each of the tables. */
const insertRows = async (filler: DatabasePool, accountIds: readonly string[], rows: number) => {
  const values = sql.fragment`
    (${sql.array([...accountIds], "uuid")})[1 + number % ${accountIds.length}::integer] AS account_id
    FROM generate_series(1, ${rows}::integer) AS number
  `;
  await filler.query(sql.typeAlias("void")`
    INSERT INTO balance_entry (kind, amount_cents, balance_cents, created_at, account_id)
    SELECT 'topup', 1, 1, now(), ${values}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO audit_entry (action, actor, details, created_at, account_id)
    SELECT 'key.issue', 'service', '{}', now(), ${values}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO planting_order
      (public_id, mode, partner, partner_name, buyer_name, timeline, tree_count, created_at, account_id)
    SELECT gen_random_uuid(), 'live', 'simulated', 'Partner', 'Buyer', 'allocations', 1, now(), ${values}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, account_id)
    SELECT 'live', 'tree', number, 1, 1, gen_random_uuid(), 'ledger', 'delivered', now(), ${values}
    ON CONFLICT DO NOTHING
  `);
};

test("the newest rows of an account are found beside any number of newer ones of other accounts", async (t) => {
  const { filler, db, vacuum, readAtMost } = await openPageCount(t, LISTED_TABLES);
  const { id: accountId } = await createTestOrganization(db);
  const otherIds = [(await createTestOrganization(db)).id, (await createTestOrganization(db)).id];
  await insertRows(filler, [accountId, ...otherIds, ...otherIds, ...otherIds], 20_000);
  await vacuum();
  await insertRows(filler, otherIds, 20_000);

  const limit = 20;
  const lists: Readonly<Record<string, () => Promise<readonly unknown[]>>> = {
    "the newest balance entries": () => listBalanceEntries(db, accountId, { after: null, limit }),
    "entries before one": () => listBalanceEntries(db, accountId, { after: "15000", limit }),
    "the newest audit entries": () => listAuditEntries(db, { accountId }, limit),
    "the newest planting orders": () => listPlantingOrders(db, { accountId, limit }),
    "the latest meter events": () => listMeterEvents(db, { state: null, accountId, limit }),
  };
  for (const [name, list] of Object.entries(lists)) {
    t.is((await readAtMost(MAXIMUM_PAGES, list, name)).length, 20, name);
  }
});

const EVENTS = 4000;
/** Planning reads pages of each index. With an index of all events that have a note, it was 248 pages. */
const MAXIMUM_ATTENTION_PAGES = 60;

test("usage that has an operator's attention is counted without reading all that was delivered", async (t) => {
  const { filler, readAtMost } = await openPageCount(t, ["meter_event"]);
  const { id: accountId } = await createTestOrganization(t.context.db);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event (
      account_id, mode, kind, second, sequence, quantity, identifier, processor, state, attempts, is_late, last_error,
      sealed_at, settled_at
    )
    SELECT
      ${accountId}, 'live', 'tree', second, 1, 1, second::text, 'ledger', 'delivered', 2,
      second = 100, 'the connection was lost',
      now(), now()
    FROM generate_series(1, ${EVENTS}::integer) AS second
  `);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) meter_event`);
  await readAtMost(MAXIMUM_ATTENTION_PAGES, async (db) => {
    t.deepEqual(await countUsageAttention(db), [{ cause: "late", items: 1, units: 1 }]);
    const listed = await listMeterEvents(db, { state: "late", accountId: null, limit: 10 });
    const seconds = listed.map(({ second }) => second);
    t.deepEqual(seconds, [100]);
  });
});
