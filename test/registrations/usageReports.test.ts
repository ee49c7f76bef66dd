import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { closeUsage } from "../../modules/billing/reconciliation/repairUsage.ts";
import { refreshSubscription } from "../../modules/billing/processorEvents/readSubscription.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import type { ApiResponse } from "../api/startStandaloneApi.ts";
import { startBilledApi } from "../billing/billedApi.ts";
import { listFailedEvents, setUpBilling } from "../billing/billingSetup.ts";
import { REFUSED } from "../stripeDouble/faults.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";

const test = testWithDatabase();

const texts = { registration_id: z.string(), kind: z.string(), created_at: z.string() };
const usages = z.array(z.looseObject({ ...texts, state: z.string() }));

const setUp = async (t: DatabaseTest) => {
  const billing = await setUpBilling(t);
  const { deps, stream } = billing;
  const { get } = await startBilledApi(t, billing);
  return {
    ...billing,
    read: (id: string) => get(`/usage/${id}`),
    /** Returns the ids and states of a list. */
    list: async (query: string) =>
      usages
        .parse((await get(`/usage${query}`)).body["usage"])
        .map((each) => [each.registration_id, each.state]),
    readStatement: async (query: string, mode?: "live" | "test") => {
      await refreshSubscription(deps, stream.accountId, AbortSignal.timeout(10_000));
      return get(`/statement${query}`, mode);
    },
  };
};

test("a registration's usage is pending, then reported, with the period of its subscription", async (t) => {
  const { deps, register, refund, drain, read } = await setUp(t);
  const id = await register(3);

  const pending = await read(id);
  t.is(pending.status, 200);
  t.like(pending.body, { registration_id: id, kind: "tree", state: "pending", count: 3 });
  t.is(pending.body["period"], null, "Stripe has not returned it yet");

  await drain();
  t.is((await read(id)).body["state"], "reported");

  await refund(id, 1);
  t.is((await read(id)).body["state"], "pending", "the refund is to be reported");
  await drain();
  const { body } = await read(id);
  t.like(body, { state: "corrected", count: 3, refunded_count: 1 });
  const { start, end } = z.object({ start: z.string(), end: z.string() }).parse(body["period"]);
  t.true(new Date(start) <= deps.clock.now() && deps.clock.now() < new Date(end));
});

test("usage that the processor refused is failed, and closed once the operator decides so", async (t) => {
  const { deps, double, stream, register, pass, drain, read, list } = await setUp(t);
  const good = await register(1);
  await drain();
  pass(10);
  double.control.addFault(REFUSED);
  const bad = await register(2);
  await drain();
  pass(10);
  const waiting = await register(4);

  t.is((await read(bad)).body["state"], "failed");
  await closeUsage(deps, await listFailedEvents(deps.db, stream), { document: null });
  t.is((await read(bad)).body["state"], "closed");
  t.deepEqual(await list(""), [
    [waiting, "pending"],
    [bad, "closed"],
    [good, "reported"],
  ]);
});

test("usage that was offset by refunds of other usage of its second is reported, and refunded one is corrected", async (t) => {
  const { double, events, register, refund, drain, read } = await setUp(t);
  const second = double.control.now();
  const refunded = await register(3);
  await drain();
  // Committed late: the second is sealed already.
  double.control.holdClock({ second });
  const offset = await register(1);
  const partlyRefunded = await register(4);
  await refund(partlyRefunded, 2);
  await refund(refunded);
  await drain();
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 3 },
    { state: "delivered", quantity: 0 },
  ]);

  t.like((await read(offset)).body, { state: "reported", refunded_count: 0 });
  t.like((await read(partlyRefunded)).body, { state: "corrected", refunded_count: 2 });
  t.like((await read(refunded)).body, { state: "corrected", refunded_count: 3 });
});

test("without a subscription, the period is the month from the billing day", async (t) => {
  const { db } = t.context;
  const { call, id, apiKeyTest: key } = await startApiOf(t, { organization: { billingDay: 20 } });
  const clock = { now: () => new Date("2026-03-05T12:00:00Z") };
  const registration = await registerFor(db, id, { clock, mode: "test", kind: "bottle" });

  const { body } = await call("GET", `/usage/${registration.id}`, { key });
  const period = { start: "2026-02-20T00:00:00.000Z", end: "2026-03-20T00:00:00.000Z" };
  t.like(body, { kind: "bottle", state: "pending", period });
});

test("a registration keeps its usage when a restore reuses numbers of transactions and batches", async (t) => {
  const { db } = t.context;
  const { id: accountId, get } = await startApiOf(t);
  const register = async (time: string) =>
    (await registerFor(db, accountId, { clock: { now: () => new Date(time) } })).id;
  const before = await register("2026-03-01T00:00:00.999Z");
  const after = await register("2026-03-01T00:00:01.000Z");
  await db.query(sql.typeAlias("void")`
    UPDATE registration SET transaction_id = '0', usage_batch = 5 WHERE account_id = ${accountId}
  `);
  await db.query(sql.typeAlias("void")`
    UPDATE usage_fact SET usage_batch = 5 WHERE account_id = ${accountId}
  `);
  await db.query(sql.typeAlias("void")`
    DELETE FROM usage_fact WHERE account_id = ${accountId} AND second % 2 = 0
  `);

  t.like((await get(`/usage/${before}`)).body, { state: "not_billed" });
  t.like((await get(`/usage/${after}`)).body, { state: "pending" });
});

test("imported registrations are not billed, and are found by the ids that they came with", async (t) => {
  const { db } = t.context;
  const { id: accountId, get } = await startApiOf(t);
  for (const kind of ["tree", "bottle"]) {
    await db.query(sql.typeAlias("void")`
      INSERT INTO registration (id, account_id, mode, kind, count, created_at, imported_id)
      VALUES (gen_random_uuid(), ${accountId}, 'live', ${kind}, 5, now(), 'old/1')
    `);
  }
  const path = `/usage/${encodeURIComponent("old/1")}`;

  const expected = { registration_id: "old/1", state: "not_billed", period: null };
  t.like((await get(path)).body, { ...expected, kind: "tree" });
  t.like((await get(`${path}?kind=bottle`)).body, { ...expected, kind: "bottle" });
});

test("a list has trees, then bottles, newest first, across pages, and only of the key's mode and account", async (t) => {
  const { db } = t.context;
  const { call, id: accountId, apiKeyProd, apiKeyTest } = await startApiOf(t);
  await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    WITH registration AS (
      INSERT INTO registration (id, account_id, mode, kind, count, created_at, usage_batch)
      SELECT
        gen_random_uuid(), ${accountId}, 'live', kind, 1, timestamptz '2026-01-01' + (number / 3) * interval '1 hour',
        nextval('usage_batch')
      FROM generate_series(1, 2300) AS number
      CROSS JOIN (VALUES ('tree'), ('bottle')) AS kinds (kind)
      RETURNING *
    )
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
    SELECT account_id, mode, kind, usage_batch, 1, extract(epoch FROM created_at)::bigint
    FROM registration
  `);
  const read = async (key: string, query: string) => {
    const { body } = await call("GET", `/usage?${query}`, { key });
    return usages.parse(body["usage"]);
  };

  const all = await read(apiKeyProd, "");
  t.is(new Set(all.map((each) => each.registration_id)).size, 4600);
  t.is(all.length, 4600);
  const trees = all.slice(0, 2300);
  t.true(trees.every(({ kind }) => kind === "tree"));
  t.true(all.slice(2300).every(({ kind }) => kind === "bottle"));
  const times = trees.map((each) => each.created_at);
  t.deepEqual(times, times.toSorted().toReversed());
  t.is((await read(apiKeyProd, "kind=bottle")).length, 2300);
  t.is((await read(apiKeyProd, "created_at=2026-01-02&end_at=2026-01-02&kind=tree")).length, 72);
  t.deepEqual(await read(apiKeyTest, ""), []);
});

const statements = z.array(z.looseObject({ kind: z.string() }));

const treesOf = ({ body }: ApiResponse) =>
  statements.parse(body["statements"]).find(({ kind }) => kind === "tree");

test("the statement of the billing period sums up what was registered, refunded and reported", async (t) => {
  const { register, refund, drain, readStatement } = await setUp(t);
  const id = await register(40);
  await drain();
  await refund(id, 10);
  await drain();
  await register(5);

  const response = await readStatement("");
  t.is(response.status, 200);
  t.like(response.body, {
    mode: "live",
    subscription: { status: "active", paused: null, trial: null },
  });
  t.like(treesOf(response), {
    registered: 45,
    refunded: 10,
    reported: 30,
    pending: 5,
    failed: 0,
    unit_price: { amount: "45", currency: "usd" },
    days: [{ day: "2026-05-15", registered: 45 }],
    invoices: [],
  });
  t.deepEqual(await readStatement("?period=current").then(({ body }) => body), response.body);
});

test("the statement of a test key has the usage of test mode, which no invoice has", async (t) => {
  const { register, readStatement } = await setUp(t);
  await register(3);
  await register(7, "test");

  const response = await readStatement("", "test");
  t.like(response.body, { mode: "test", subscription: null });
  t.like(treesOf(response), { registered: 7, pending: 7, unit_price: null, invoices: [] });
});

test("a period that is neither a month nor current is refused", async (t) => {
  const { readStatement } = await setUp(t);
  for (const period of ["2026-13", "2026-5", "may", "2026-05-01", "0000-01"]) {
    const { status, body } = await readStatement(`?period=${period}`);
    t.is(status, 400, period);
    t.deepEqual(body, { error: "period: must be a month in the form YYYY-MM, or current" });
  }
  t.is((await readStatement("?period=")).status, 200, "empty is absent");
});
