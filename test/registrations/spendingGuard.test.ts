import { sql } from "slonik";
import { z } from "zod";
import { updateAccountLimits } from "../../db/accounts/accountLimits.ts";
import { addToDailyCounts } from "../../db/registrations/dailyCounts.ts";
import { isUnusualDay } from "../../domain/accounts/limits.ts";
import type { UnusualDay } from "../../services/registrations/createSpendingGuard.ts";
import { readAccountLimits } from "../../program/settings/readAccountLimits.ts";
import { parseConfig } from "../../config/config.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestGuard, createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();

const { countPerRequest } = readAccountLimits(parseConfig({})).live;

test("by default a request may register a million units, and more is a 400 that says so", async (t) => {
  t.is(countPerRequest, 1_000_000);
  const guard = createTestGuard(t, { ...t.context, limits: { countPerRequest } });
  const { call } = await startStandaloneApi(t, { ...t.context, guard });
  const { id, apiKeyProd: key } = await createTestOrganization(t.context.db);

  t.is((await call("POST", "/plant/trees", { key, body: { count: 1_000_000 } })).status, 200);
  const refused = await call("POST", "/plant/trees", { key, body: { count: 1_000_001 } });
  t.is(refused.status, 400);
  t.deepEqual(refused.body, {
    error: "count: must be at most 1000000, this account's limit for one request",
  });
  const list = await call("GET", "/plant/trees", { key });
  t.is(list.body["total_planted_trees"], 1_000_000);

  await updateAccountLimits(t.context.db, id, {
    mode: "live",
    changes: { countPerRequest: 5_000_000 },
  });
  const restarted = await startStandaloneApi(t, { ...t.context, guard });
  const raised = await restarted.call("POST", "/plant/trees", { key, body: { count: 1_000_001 } });
  t.is(raised.status, 200);
});

test("a day's limit counts trees and bottles together, until the next day in UTC", async (t) => {
  const clock = createMovableClock("2025-06-01T23:59:00Z");
  const guard = createTestGuard(t, { ...t.context, clock, limits: { countPerDay: 10 } });
  const { call } = await startStandaloneApi(t, { ...t.context, clock, guard });
  const { apiKeyProd: key, apiKeyTest } = await createTestOrganization(t.context.db);
  const plant = (count: number) => call("POST", "/plant/trees", { key, body: { count } });

  t.is((await plant(6)).status, 200);
  t.is((await call("POST", "/rescue/plastic_bottles", { key, body: { count: 2 } })).status, 200);
  const refused = await plant(3);
  t.is(refused.status, 400);
  t.deepEqual(refused.body, {
    error: "count: this account may register 10 units on one day (UTC), and 2 are left today",
  });
  t.is((await plant(2)).status, 200);
  const body = { count: 10 };
  t.is((await call("POST", "/plant/trees", { key: apiKeyTest, body })).status, 200);

  clock.set("2025-06-02T00:00:00Z");
  t.is((await plant(10)).status, 200);
  t.is((await plant(1)).status, 400);
});

test("concurrent requests do not pass a day's limit together, and rejected ones use nothing", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { countPerDay: 10 } });
  const { call } = await startStandaloneApi(t, { ...t.context, guard });
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const responses = await Promise.all(
    Array.from({ length: 30 }, () => call("POST", "/plant/trees", { key, body: { count: 3 } })),
  );
  t.is(responses.filter(({ status }) => status === 200).length, 3);
  t.is((await call("POST", "/plant/trees", { key, body: { count: 1 } })).status, 200);
});

test("a repeated request gets its original record although the limit is reached", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { countPerDay: 5 } });
  const { call } = await startStandaloneApi(t, { ...t.context, guard });
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const body = { count: 5, idempotency_key: "order-1" };
  t.is((await call("POST", "/plant/trees", { key, body })).status, 200);
  t.is((await call("POST", "/plant/trees", { key, body: { count: 1 } })).status, 400);

  const repeated = await call("POST", "/plant/trees", { key, body });
  t.is(repeated.status, 200);
  t.is(repeated.headers.get("Idempotent-Replayed"), "true");

  const { post } = await startStoreApi(t, { ...t.context, guard });
  const store = await createTestStore(t.context.db, { balanceCents: 10_000 });
  const headers = { ...store.live, "Idempotency-Key": "order-1" };
  const first = await post("/app/api/plant", headers, { trees: 5 });
  t.is(first.status, 200);
  const refused = await post("/app/api/plant", store.live, { trees: 1 });
  t.is(refused.status, 400);
  t.is(refused.body["code"], "INVALID_PARAMETER");
  t.regex(String(refused.body["error"]), /^trees: this account may register 5 units/u);
  t.is((await post("/app/api/plant", headers, { trees: 5 })).text, first.text);
});

test("processes learn each other's counts when they store their own", async (t) => {
  const limits = { countPerDay: 10 };
  const one = createTestGuard(t, { ...t.context, limits });
  const other = createTestGuard(t, { ...t.context, limits });
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const first = await startStandaloneApi(t, { ...t.context, guard: one });
  const second = await startStandaloneApi(t, { ...t.context, guard: other });
  const plant = async ({ call }: typeof first, count: number) =>
    (await call("POST", "/plant/trees", { key, body: { count } })).status;

  t.is(await plant(first, 8), 200);
  await one.store();
  t.is(await plant(second, 1), 200);
  await other.store();
  t.is(await plant(second, 2), 400);
  t.is(await plant(second, 1), 200);
});

test("ten times the usual day is reported once, whatever the number of processes", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2025-06-10T12:00:00Z");
  const reported: UnusualDay[] = [];
  const guards = [1, 2].map(() =>
    createTestGuard(t, { db, clock, onUnusualDay: (day) => reported.push(day) }),
  );
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  await addToDailyCounts(
    db,
    ["2025-06-07", "2025-06-08", "2025-06-09"].map((day, index) => ({
      accountId: id,
      mode: "live" as const,
      day,
      count: 10 * index,
    })),
  );
  for (const guard of guards) {
    const { call } = await startStandaloneApi(t, { db, clock, guard });
    await call("POST", "/plant/trees", { key, body: { count: 60 } });
    await guard.store();
  }
  t.deepEqual(reported, [
    { accountId: id, mode: "live", day: "2025-06-10", count: 120, usualCount: 10 },
  ]);
  await Promise.all(guards.map((guard) => guard.store()));
  t.is(reported.length, 1);
});

test("a day is unusual from ten times the mean of at least three days", (t) => {
  t.true(isUnusualDay(100, { days: 3, meanCount: 10 }));
  t.false(isUnusualDay(99, { days: 28, meanCount: 10 }));
  t.false(isUnusualDay(1_000_000, { days: 2, meanCount: 1 }));
});

test.serial("counts that cannot be stored are kept and stored later", async (t) => {
  const { db, owner } = t.context;
  const guard = createTestGuard(t, { db });
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  const { call } = await startStandaloneApi(t, { db, guard });
  await call("POST", "/plant/trees", { key, body: { count: 7 } });
  await owner.query(sql.unsafe`ALTER TABLE daily_count RENAME TO missing`);
  await guard.store();
  await owner.query(sql.unsafe`ALTER TABLE missing RENAME TO daily_count`);
  await guard.store();
  const count = await db.oneFirst(
    sql.type(z.strictObject({ count: z.bigint() }))`
      SELECT count FROM daily_count WHERE account_id = ${id}
    `,
  );
  t.is(count, 7n);
});
