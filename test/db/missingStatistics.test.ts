import { z } from "zod";
import { findRegistrationUsage } from "../../modules/registrations/registrationUsage.sql.ts";
import { listRefundsByKeys } from "../../modules/registrations/refunds.sql.ts";
import { sql } from "../../db/sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

// The tests are serial, because the statistics and the reads of one would be those of the other.
const test = testWithDatabase();

/** Their facts have 40 pages. */
const REFUNDS = 3000;
/** Of 63 to 66, planning reads 46 in its first execution. Without the search by refund, it was more than 178. */
const MAXIMUM_USAGE_PAGES = 80;

test.serial(
  "the usage of a refunded registration is found by its refunds where statistics know of none",
  async (t) => {
    const { filler, db } = await openSinglePools(t);
    const { id: accountId } = await createTestOrganization(db);
    const tables = ["registration", "usage_fact", "refund"];
    await stopAutovacuum(filler, tables);
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
    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
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
    const id = await db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM registration WHERE account_id = ${accountId} LIMIT 1
  `);
    const owner = { accountId, mode: "live", kind: "tree" } as const;

    const countPages = await createPageCounter(filler, db, tables);
    const pages = await countPages(async (single) => {
      t.deepEqual((await findRegistrationUsage(single, owner, id))?.states, ["unsealed"]);
    });
    t.true(pages > 0 && pages <= MAXIMUM_USAGE_PAGES, `${pages} pages`);
  },
);

/** Of one refund, and what planning reads in its first execution. The table has 260. */
const MAXIMUM_REFUND_PAGES = 40;

test.serial("a thousand keys of refunds, of which one is known, read one refund", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const { id: accountId } = await createTestOrganization(db);
  await stopAutovacuum(filler, ["refund", "idempotency_key"]);
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
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
  const [known = ""] = await filler.anyFirst(sql.type(z.strictObject({ key: z.string() }))`
    SELECT id::text AS key FROM refund WHERE account_id = ${accountId} LIMIT 1
  `);
  const keys = [known, ...Array.from({ length: 999 }, () => crypto.randomUUID())];
  const owner = { accountId, mode: "live", kind: "tree" } as const;

  const countPages = await createPageCounter(filler, db, ["refund"]);
  let found = 0;
  const pages = await countPages(async (single) => {
    const named = keys.map((idempotencyKey) => Object.assign({ idempotencyKey }, owner));
    found = (await listRefundsByKeys(single, named, false)).size;
  });
  t.is(found, 1);
  t.true(pages <= MAXIMUM_REFUND_PAGES, `${pages} pages`);
});
