import { sql } from "slonik";
import { z } from "zod";
import { parseConfig } from "../../config/config.ts";
import { updateAccountLimits } from "../../db/accounts/accountLimits.ts";
import { addToDailyCounts } from "../../db/registrations/dailyCounts.ts";
import { dailyLimitMessage, isUnusualDay } from "../../domain/accounts/limits.ts";
import { readAccountLimits } from "../../program/settings/readAccountLimits.ts";
import { createRequestLimiter } from "../../services/accounts/createRequestLimiter.ts";
import type { UnusualDay } from "../../services/registrations/limits/createDailyCounts.ts";
import { batchIn, rejectionIn } from "../api/batches.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";
import { startStoreApiOf } from "../stores/startStoreApi.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestGuard, createTestOrganization, limitsForTests } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();

const { countPerRequest } = readAccountLimits(parseConfig({})).live;

test("by default a request may register a million units, and more is a 400 that says so", async (t) => {
  t.is(countPerRequest, 1_000_000);
  const guard = createTestGuard(t, { ...t.context, limits: { countPerRequest } });
  const { call, id, key } = await startApiOf(t, { guard });

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
  const { call, key, apiKeyTest } = await startApiOf(t, { clock, guard });
  const plant = (count: number) => call("POST", "/plant/trees", { key, body: { count } });

  t.is((await plant(6)).status, 200);
  t.is((await call("POST", "/rescue/plastic_bottles", { key, body: { count: 2 } })).status, 200);
  const refused = await plant(3);
  t.is(refused.status, 403);
  t.deepEqual(refused.body, { error: dailyLimitMessage(10, 8) });
  const impossible = await plant(11);
  t.is(impossible.status, 400, "on every day");
  t.regex(String(impossible.body["error"]), /^count: must be at most 10, .* for one day$/u);
  t.is((await plant(2)).status, 200);
  const body = { count: 10 };
  t.is((await call("POST", "/plant/trees", { key: apiKeyTest, body })).status, 200);

  clock.set("2025-06-02T00:00:00Z");
  t.is((await plant(10)).status, 200);
  t.is((await plant(1)).status, 403);
});

test("concurrent requests do not pass a day's limit together, and rejected ones use nothing", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { countPerDay: 10 } });
  const { call, key } = await startApiOf(t, { guard });
  const responses = await Promise.all(
    Array.from({ length: 30 }, () => call("POST", "/plant/trees", { key, body: { count: 3 } })),
  );
  t.is(responses.filter(({ status }) => status === 200).length, 3);
  t.is((await call("POST", "/plant/trees", { key, body: { count: 1 } })).status, 200);
});

test("a repeated request gets its original record although the limit is reached", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { countPerDay: 5 } });
  const { call, key } = await startApiOf(t, { guard });
  const body = { count: 5, idempotency_key: "order-1" };
  t.is((await call("POST", "/plant/trees", { key, body })).status, 200);
  t.is((await call("POST", "/plant/trees", { key, body: { count: 1 } })).status, 403);

  const repeated = await call("POST", "/plant/trees", { key, body });
  t.is(repeated.status, 200);
  t.is(repeated.headers.get("Idempotent-Replayed"), "true");

  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 }, guard });
  const headers = { ...store.live, "Idempotency-Key": "order-1" };
  const first = await post("/app/api/plant", headers, { trees: 5 });
  t.is(first.status, 200);
  const refused = await post("/app/api/plant", store.live, { trees: 1 });
  t.is(refused.status, 403);
  t.deepEqual(refused.body, { error: dailyLimitMessage(5, 5), code: "DAILY_LIMIT_REACHED" });
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
  t.is(await plant(second, 2), 403);
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

const refuses = test.macro(
  async (
    t,
    path: string,
    body: unknown,
    status: number,
    message: RegExp,
    headers: Readonly<Record<string, string>> = {},
  ) => {
    const { call, key, id: accountId } = await startApiOf(t);

    const response = await call("POST", path, { key, body, headers });

    t.is(response.status, status);
    t.regex(String(response.body["error"]), message);
    t.is((await readAccountSums(t.context.db, accountId)).registrations, 0);
  },
);
const ITEMS_MESSAGE = /^items: must be an array of 1 to 1000 items$/u;
const BATCH = "/plant/trees/batch";

test("a batch without items is refused", refuses, BATCH, { items: [] }, 400, ITEMS_MESSAGE);
test("a body without items is refused", refuses, BATCH, {}, 400, /^items: required$/u);
test("items that are no list are refused", refuses, BATCH, { items: {} }, 400, ITEMS_MESSAGE);
test(
  "a batch of 1,001 items is refused",
  refuses,
  BATCH,
  { items: Array.from({ length: 1001 }, () => ({ count: 1 })) },
  400,
  ITEMS_MESSAGE,
);
test(
  "a batch of more than a MiB is refused",
  refuses,
  BATCH,
  " ".repeat(1024 * 1024 + 1),
  413,
  /1024 KiB/u,
);
test(
  "a field with a key for a whole batch is rejected",
  refuses,
  BATCH,
  { items: [{ count: 1 }], idempotencyKey: "k" },
  400,
  /^idempotencyKey: must be given as idempotency_key of each item$/u,
);
test(
  "a misspelt key of an item is an error of the item",
  refuses,
  BATCH,
  { items: [{ count: 1 }, { count: 1, "idempotency-key": "k" }] },
  400,
  /idempotency-key: must be given as idempotency_key/u,
);
test(
  "an unknown value of atomic is rejected",
  refuses,
  `${BATCH}?atomic=no`,
  { items: [{ count: 1 }] },
  400,
  /^atomic: must be true or false$/u,
);
test(
  "a key for a whole batch is rejected",
  refuses,
  BATCH,
  { items: [{ count: 1 }] },
  400,
  /^Idempotency-Key: not accepted for a batch; set idempotency_key on each item$/u,
  { "Idempotency-Key": "batch-1" },
);

test("metadata may fill a batch far beyond the size of a single request", async (t) => {
  const { call, key } = await startApiOf(t);
  const items = Array.from({ length: 60 }, (_, index) => ({
    count: 1,
    idempotency_key: `large-${index}`,
    metadata: { text: "x".repeat(16_000) },
  }));

  const first = await call("POST", BATCH, { key, body: { items } });
  const again = await call("POST", BATCH, { key, body: { items } });

  t.is(batchIn(first).succeeded, 60);
  t.deepEqual(
    batchIn(again).results.map(({ body }) => body["tree_details"]),
    batchIn(first).results.map(({ body }) => body["tree_details"]),
  );
});

test("items beyond the limit of a day are rejected by their index, except repeated ones", async (t) => {
  const { db } = t.context;
  const guard = createTestGuard(t, { db, limits: { countPerRequest: 50, countPerDay: 100 } });
  const { call, key, id: accountId } = await startApiOf(t, { guard });
  await call("POST", "/plant/trees", { key, body: { count: 40, idempotency_key: "first" } });
  const body = {
    items: [
      { count: 60 },
      { count: 50 },
      { count: 20, idempotency_key: "late" },
      { count: 40, idempotency_key: "first" },
      { count: 10 },
      { count: 1 },
    ],
  };

  const whole = rejectionIn(await call("POST", BATCH, { key, body }));
  const parts = batchIn(await call("POST", `${BATCH}?atomic=false`, { key, body }));

  t.deepEqual(whole.errors, [
    {
      index: 0,
      status: 400,
      error: "count: must be at most 50, this account's limit for one request",
    },
    {
      index: 2,
      status: 403,
      error: dailyLimitMessage(100, 90),
    },
    {
      index: 5,
      status: 403,
      error: dailyLimitMessage(100, 100),
    },
  ]);
  t.deepEqual(
    parts.results.map(({ status }) => status),
    [400, 200, 403, 200, 200, 403],
  );
  t.is((await readAccountSums(db, accountId)).total, 100n);
});

test("items beyond the limit of test data are rejected, and those with a production key are not", async (t) => {
  const { db } = t.context;
  const guard = createTestGuard(t, { db, limits: { testRecords: 3 } });
  const { call, apiKeyProd, apiKeyTest } = await startApiOf(t, { guard });
  const body = { items: Array.from({ length: 5 }, () => ({ count: 1 })) };

  const inTestMode = await call("POST", `${BATCH}?atomic=false`, { key: apiKeyTest, body });
  const live = await call("POST", `${BATCH}?atomic=false`, { key: apiKeyProd, body });
  const single = await call("POST", "/plant/trees", { key: apiKeyTest, body: { count: 1 } });

  t.deepEqual(
    batchIn(inTestMode).results.map(({ status }) => status),
    [200, 200, 200, 403, 403],
  );
  t.is(batchIn(live).succeeded, 5);
  t.is(single.status, 403);
});

test("items that would increase the total beyond what JSON carries are rejected by their index", async (t) => {
  const { call, key } = await startApiOf(t);
  const body = { items: [{ count: 5 }, { count: Number.MAX_SAFE_INTEGER }, { count: 6 }] };

  const whole = await call("POST", BATCH, { key, body });
  const parts = await call("POST", `${BATCH}?atomic=false`, { key, body });

  t.deepEqual(
    rejectionIn(whole).errors.map(({ index }) => index),
    [1],
  );
  t.deepEqual(
    batchIn(parts).results.map(({ status, body: { total_planted_trees: total } }) => [
      status,
      total,
    ]),
    [
      [200, 5],
      [400, undefined],
      [200, 11],
    ],
  );
});

test("a batch counts as one request for each two items", async (t) => {
  const limiter = createRequestLimiter({
    defaults: limitsForTests({ requestsPerSecond: 10 }),
    nowMs: () => 0,
  });
  const { call, key } = await startApiOf(t, { limiter });
  const send = (count: number) =>
    call("POST", BATCH, {
      key,
      body: { items: Array.from({ length: count }, () => ({ count: 1 })) },
    });

  const small = await send(20);
  const large = await send(1000);
  const next = await send(1);

  t.is(small.status, 200);
  t.is(small.headers.get("RateLimit"), '"key";r=10;t=1');
  t.is(large.status, 200);
  t.is(large.headers.get("RateLimit"), '"key";r=0;t=51');
  t.is(next.status, 429);
});

for (const path of [BATCH, "/charities/donate/batch"]) {
  test(`${path} with too many items costs no more than the largest batch`, async (t) => {
    const limiter = createRequestLimiter({
      defaults: limitsForTests({ requestsPerSecond: 10 }),
      nowMs: () => 0,
    });
    const { call, key } = await startApiOf(t, { limiter });

    const items = Array.from({ length: 80_000 }, () => 0);
    const rejected = await call("POST", path, { key, body: { items } });

    t.is(rejected.status, 400);
    // The allowance of 20 requests is short of 480.
    t.is(rejected.headers.get("RateLimit"), '"key";r=0;t=50');
  });
}
