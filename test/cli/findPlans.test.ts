import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { parseLookup } from "../../modules/support/lookup.rules.ts";
import { lookupQuery } from "../../modules/support/recordLookups.sql.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

/** Returns how PostgreSQL looks a text up. */
const planOf = async (
  connection: CommonQueryMethods,
  table: "registration" | "donation",
  text: string,
): Promise<string> => {
  const query = lookupQuery(table, parseLookup(text), { text, accountId: null, limit: 21 });
  const plan = await connection.anyFirst(sql.type(z.strictObject({ "QUERY PLAN": z.string() }))`
    EXPLAIN ${query}
  `);
  return plan.join("\n");
};
test("every look-up on a filled table uses an index", async (t) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`
    INSERT INTO account (id, type, name, created_at)
    SELECT gen_random_uuid(), 'organization', 'Filled', now() FROM generate_series(1, 3000)
  `);
  await db.query(sql.typeAlias("void")`
    WITH owner AS (
      SELECT array_agg(id) AS ids FROM account
    )
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, idempotency_key, attribution, customer_name, customer_email,
      customer_id, order_id
    )
    SELECT
      gen_random_uuid(), ids[1 + number % cardinality(ids)], 'live', 'tree', 1, now() - number * interval '1 second',
      'filled-' || number, 'tag ' || number, md5(number::text), number || '@example.com', 'c' || number, '#' || number
    FROM owner, generate_series(1, 20000) AS number
  `);
  await db.query(sql.typeAlias("void")`
    INSERT INTO donation (
      id, account_id, mode, amount_cents, nonprofit_id, charity_provider, charity_name, created_at, idempotency_key,
      attribution, customer_name, customer_email, customer_id, order_id
    )
    SELECT
      gen_random_uuid(), account_id, mode, 100, 'n', 'catalogue', 'Sea', created_at, idempotency_key, attribution,
      customer_name, customer_email, customer_id, order_id
    FROM registration
    WHERE idempotency_key LIKE 'filled-%'
  `);
  await db.query(sql.typeAlias("void")`
    WITH filled AS (
      SELECT id, account_id, gen_random_uuid() AS refund_id FROM registration WHERE idempotency_key LIKE 'filled-%'
    ),
    refunded AS (
      INSERT INTO refund (id, registration_id, account_id, count, created_at, dispatched_at)
      SELECT refund_id, id, account_id, 1, now(), now() FROM filled
    )
    INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
    SELECT
      idempotency_key_hash((SELECT idempotency_secret FROM deployment), account_id, 'live', 'refund_plant', 'refund-key-' || refund_id),
      account_id, 'live', 'refund_plant', refund_id
    FROM filled
  `);
  await db.query(sql.typeAlias("void")`
    WITH new_order AS (
      INSERT INTO planting_order (
        public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, created_at
      )
      SELECT id::text, account_id, mode, 'manual', 'Partner', 'Buyer', 'allocations', 1, created_at
      FROM registration
      WHERE idempotency_key LIKE 'filled-%'
      RETURNING id, public_id
    )
    UPDATE registration
    SET planting_order_id = new_order.id
    FROM new_order
    WHERE registration.id = new_order.public_id::uuid
  `);
  await t.context.owner.query(sql.typeAlias("void")`ANALYZE`);

  for (const table of ["registration", "donation"] as const) {
    for (const text of ["17321", "01985555", "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"]) {
      t.notRegex(
        await planOf(db, table, text),
        /Seq Scan on (?:registration|donation|refund|idempotency_key|planting_order)\b/u,
        text,
      );
    }
    // The table is too small for the planner to prefer the index of names by itself.
    await db.transaction(async (transaction) => {
      await transaction.query(sql.typeAlias("void")`SET LOCAL enable_seqscan = off`);
      const plan = await planOf(transaction, table, "c4ca4238");
      t.regex(plan, /Index Scan on (?:registration|donation)_customer_name/u);
    });
  }
});
