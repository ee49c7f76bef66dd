import { z } from "zod";
import type { CommonQueryMethods } from "slonik";
import { sql } from "../../db/sql.ts";
import { setUpUsage } from "../billing/repair/usageSetup.ts";
import { readJson, impactOf } from "./runImpact.ts";
import { setUpPlanting } from "../planting/setUpPlanting.ts";
import { createTestStore, startStoreApi, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";
import { insertTestKeys } from "../support/insertTestKeys.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { issueKey } from "../../modules/accounts/manageKeys.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { parseLookup } from "../../modules/support/lookup.rules.ts";
import { lookupQuery } from "../../modules/support/recordLookups.sql.ts";

const test = testWithDatabase();

const answer = z.object({
  records: z.array(
    z.looseObject({ record: z.string(), id: z.string(), next: z.string().nullable() }),
  ),
  has_more: z.boolean(),
});

const find = async (t: DatabaseTest, ...args: readonly string[]) => {
  const run = await impactOf(t)("find", ...args, "--json");
  return { ...answer.parse(readJson(run)), exitCode: run.exitCode };
};

/** Checks that each text finds one record, with these fields. */
const findsOne = async (t: DatabaseTest, texts: readonly string[], expected: object) => {
  for (const text of texts) {
    t.like(await find(t, text), { exitCode: 0, records: { length: 1, 0: expected } }, text);
  }
};

test.serial("a shop's order is found by its number, customer and request's key", async (t) => {
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const headers = { ...store.live, "Idempotency-Key": "shop-key-1" };
  await post("/app/api/plant", headers, {
    trees: 3,
    customer_name: "Ann Lee-Müller",
    order_id: "#1001",
    customer_email: "Ann@Example.com",
    customer_id: "gid://shopify/Customer/7701",
  });

  for (const [text, by] of [
    ["1001", "order"],
    ["#1001", "order"],
    ["ann@example.COM", "customer_email"],
    ["lee-mü", "customer_name"],
    ["gid://shopify/Customer/7701", "customer_id"],
    ["shop-key-1", "idempotency_key"],
  ] as const) {
    await findsOne(t, [text], {
      record: "registration",
      found_by: [by],
      account_id: store.id,
      account_type: "store",
      count: 3,
      remaining_count: 3,
      billing: "not_billed",
      evidence: "registered",
    });
  }
  const other = await createTestOrganization(t.context.db);
  t.deepEqual((await find(t, "1001", "--org", other.id)).records, []);
  t.is((await find(t, "1001", "--org", store.id)).records.length, 1);
});

test.serial("a registration is found by id, refund, key, attribution or meter event", async (t) => {
  const scene = await setUpUsage(t);
  await scene.setCustomer();
  const id = await scene.register(5);
  await scene.refund(id, 2);
  await scene.drain();
  const { event, identifier } = await t.context.db.one(sql.type(
    z.strictObject({ event: z.bigint(), identifier: z.string() }),
  )`
    SELECT id AS event, identifier FROM meter_event WHERE account_id = ${scene.id}
  `);
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE registration SET idempotency_key = 'cart-77', attribution = 'spring sale' WHERE id = ${id}
  `);
  await insertTestKeys(t.context.db, "registration", "plant", scene.id);

  await findsOne(t, [id, id.toUpperCase(), `refund-${id}`, "cart-77", "spring sale"], {
    id,
    count: 5,
    refunded_count: 2,
    billing: "corrected",
    next: `impact usage explain ${id}`,
  });
  for (const text of [identifier, String(event)]) {
    const { records } = await find(t, text);
    const found = records.map(({ record }) => record);
    t.deepEqual(found, ["meter event", "registration"]);
    t.like(records[0], { state: "delivered", quantity: 3 });
  }
});

test.serial("failed usage is shown with the command that retries it", async (t) => {
  const scene = await setUpUsage(t);
  const id = await scene.register(5);
  const next = `impact usage explain ${id}`;
  t.like((await find(t, id)).records[0], { billing: "pending", next });
  await scene.drain();
  const [failed = ""] = await scene.failedEvents();
  const [record] = (await find(t, id)).records;
  t.regex(String(record?.["cause"]), /^No such customer/u);
  t.like(record, { billing: "failed", next: `impact usage retry ${failed}` });
  t.like((await find(t, failed)).records[0], { record: "meter event", state: "failed" });
});

test.serial("refund keys, accounts, Stripe customers and donations are found", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const { id: accountId, apiKeyTest } = await createTestOrganization(t.context.db, {
    stripeCustomerId: "cus_Find1",
  });
  const id = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e44";
  const registration = await registerFor(t.context.db, accountId, { mode: "test", count: 4 });
  const refund = { id: registration.id, count: 1, idempotency_key: "return-9" };
  await call("POST", "/refund/trees", { key: apiKeyTest, body: refund });
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO donation
      (id, account_id, mode, amount_cents, nonprofit_id, charity_provider, charity_name, created_at, idempotency_key, attribution)
    VALUES (${id}, ${accountId}, 'test', 2500, 'n1', 'catalogue', 'Sea', now(), 'gift-1', 'tide')
  `);
  await insertTestKeys(t.context.db, "donation", "donate", accountId);
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode, count, amount_cents) VALUES (${accountId}, 'test', 1, 2500)
  `);
  const body = { id, idempotency_key: "back-1" };
  await call("POST", "/refund/donations", { key: apiKeyTest, body });

  const ofRefund = { id: registration.id, found_by: ["refund_idempotency_key"], mode: "test" };
  await findsOne(t, ["return-9"], ofRefund);
  const donation = { record: "donation", id, amount_cents: 2500, refunded: true, next: null };
  await findsOne(t, [id, `refund-${id}`, "gift-1", "tide", "back-1"], donation);
  const next = `impact org show ${accountId}`;
  await findsOne(t, [accountId, "cus_Find1"], { record: "organization", id: accountId, next });
});

test.serial("a record is found by a value in its metadata, at any depth", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  for (const metadata of [{ order: "#A-2001" }, { shop: { orders: [2001, "x"] } }, { order: 7 }]) {
    await registerFor(t.context.db, id, { metadata });
  }
  const texts = ["#A-2001", "A-2001", "2001", "#2001", "7"];
  await findsOne(t, texts, { found_by: ["metadata"], account_id: id });
});

test.serial("accounts and keys are found by what an operator sees of them", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db, { name: "Nordwind Shop" });
  const store = await createTestStore(db);
  const { id: keyId, key } = await issueKey(
    { db, clock: systemClock, actor: SERVICE },
    { id, type: "organization" },
    "test",
    { name: "reporting", scope: "read", expiresAt: null },
  );
  for (const [text, by, owner] of [
    ["nordwind", "name", id],
    [store.domain.toUpperCase(), "domain", store.id],
    [store.domain.slice(0, -4), "domain", store.id],
    [key, "key", id],
    [keyId, "id", id],
  ] as const) {
    const { records } = await find(t, text);
    t.is(records.length, 1, text);
    t.false(JSON.stringify(records).includes(key));
    t.deepEqual(records[0]?.["found_by"], [by]);
    t.true(records[0]?.next?.endsWith(owner), text);
  }
  t.is((await find(t, key.slice(0, 10))).exitCode, 0);
  const found = { record: "API key", id: keyId, mode: "test", name: "reporting", scope: "read" };
  t.like((await find(t, keyId)).records[0], { ...found, revoked_at: null });
  t.deepEqual((await find(t, keyId, "--org", store.id)).records, []);
});

test.serial("the planting order and its stage are shown", async (t) => {
  const scene = await setUpPlanting(t.context.db, { partner: "manual" });
  const id = await scene.register(3);
  await scene.createOrders();
  const { records } = await find(t, id);
  t.like(records[0], { evidence: "created" });
  t.is(typeof records[0]?.["planting_order"], "string");
});

test.serial("the newest records are shown, and it is said that there are more", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  for (const mode of ["live", "test", "live"] as const) {
    await registerFor(t.context.db, id, { mode, attribution: "crowd" });
  }
  const all = await find(t, "crowd");
  t.is(all.records.length, 3);
  t.false(all.has_more);
  const some = await find(t, "crowd", "--limit", "2");
  t.is(some.records.length, 2);
  t.true(some.has_more);
  const human = await impactOf(t)("find", "crowd", "--limit", "2");
  t.regex(human.stdout, /found by +attribution\n/u);
  t.regex(human.stdout, /next +impact usage explain /u);
  t.regex(human.stderr, /There are more records/u);
});

test("a search that shows customers of stores adds an entry with counts for each store", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { post } = await startStoreApi(t, { db });
  const first = await createTestStore(db, { balanceCents: 1000 });
  const second = await createTestStore(db, { balanceCents: 1000 });
  const unnamed = await createTestStore(db, { balanceCents: 1000 });
  const customer = { customer_name: "Ann Lee", order_id: "#1001" };
  await post("/app/api/plant", first.live, { trees: 1, ...customer });
  await post("/app/api/plant", first.live, { trees: 2, ...customer });
  const donation = { charity_id: "53-0196605", amount_dollars: 1, ...customer };
  await post("/app/api/charity/donate", first.live, donation);
  await post("/app/api/plant", second.live, { trees: 1, order_id: "1001" });
  const planted = await post("/app/api/plant", unnamed.live, { trees: 1 });
  const list = (store: { readonly id: string }) =>
    impact.json("audit", "list", "--org", store.id, "--action", "find");

  const options = ["--as", "Ada", "--reason", "ticket 12"];
  await impact.ok("find", "#1001", ...options);
  await impact.ok("find", planted.headers.get("Record-Id") ?? "");

  const entry = { action: "find", operator: "Ada", subject: null, reason: "ticket 12" };
  t.like(await list(first), [{ ...entry, details: { registrations: 2, donations: 1 } }]);
  t.like(await list(second), [{ ...entry, details: { registrations: 1, donations: 0 } }]);
  t.deepEqual(await list(unnamed), []);
});

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

test("what does not exist is named with the command that finds it", async (t) => {
  const account = `Organization or store ${ID} not found. See impact org list and impact store list.`;
  for (const [line, message] of [
    [`org show ${ID}`, account],
    [`usage list --org ${ID}`, account],
    [`audit list --org ${ID}`, account],
    [`statement --org ${ID} --period 2026-05`, account],
    [`export trees --org ${ID}`, account],
    [`evidence order list --org ${ID}`, account],
    [`org update ${ID} --name x`, account],
    [`key list --org ${ID}`, account],
    [`key issue --org ${ID} --mode live`, account],
    [`usage reconcile --org ${ID}`, account],
    [`import history - --org ${ID}`, account],
    [`key revoke ${ID}`, `key ${ID} not found; see \`impact key list\``],
    [
      `usage explain ${ID}`,
      `no organization, registration or order is named ${ID}; search with \`impact find\``,
    ],
    ["find no-such-thing", 'Nothing found for "no-such-thing".'],
    ["usage explain E9", "E9 not found; see `impact usage list`"],
    [`refund ${ID} --reason wrong`, `record ${ID} not found; search with \`impact find\``],
    ["evidence withdraw 99 --reason wrong", "fact 99 not found; see `impact evidence order show`"],
    [
      "charity show 99-9999999",
      "EIN 99-9999999 not found in the catalogue. See impact charity search.",
    ],
  ] as const) {
    t.is(await impactOf(t).fails(3, ...line.split(" ")), `impact: ${message}\n`);
  }
});

const planOf = async (
  connection: CommonQueryMethods,
  table: "registration" | "donation",
  text: string,
): Promise<string> => {
  const query = lookupQuery(table, parseLookup({ text, accountId: null, limit: 21 }));
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
    WITH owner AS (SELECT array_agg(id) AS ids FROM account)
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
  await t.context.owner.query(sql.typeAlias("void")`ANALYZE`);

  for (const table of ["registration", "donation"] as const) {
    for (const text of ["17321", "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"]) {
      t.notRegex(await planOf(db, table, text), /Seq Scan on (?:registration|donation)\b/u, text);
    }
    // The table is too small for the planner to prefer the index of names by itself.
    await db.transaction(async (transaction) => {
      await transaction.query(sql.typeAlias("void")`SET LOCAL enable_seqscan = off`);
      const plan = await planOf(transaction, table, "c4ca4238");
      t.regex(plan, /Index Scan on (?:registration|donation)_customer_name/u);
    });
  }
});
