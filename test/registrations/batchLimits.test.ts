import { KINDS } from "../../domain/accounts/accounts.ts";
import { createAuthenticator } from "../../services/accounts/createAuthenticator.ts";
import { createRequestLimiter } from "../../services/accounts/createRequestLimiter.ts";
import { batchIn, rejectionIn } from "../api/batches.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestGuard, createTestOrganization, limitsForTests } from "../support/factories.ts";

const test = testWithDatabase();

const refuses = test.macro(
  async (
    t,
    path: string,
    body: unknown,
    status: number,
    message: RegExp,
    headers: Readonly<Record<string, string>> = {},
  ) => {
    const { call } = await startStandaloneApi(t, { db: t.context.db });
    const { apiKeyProd: key, id: accountId } = await createTestOrganization(t.context.db);

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
  "an unknown parameter of a batch is refused",
  refuses,
  `${BATCH}?atomc=false`,
  { items: [{ count: 1 }] },
  400,
  /^atomc: unknown parameter/u,
);
test(
  "atomic has two values",
  refuses,
  `${BATCH}?atomic=no`,
  { items: [{ count: 1 }] },
  400,
  /^atomic: must be true or false$/u,
);
test(
  "a key for a whole batch is refused",
  refuses,
  BATCH,
  { items: [{ count: 1 }] },
  400,
  /^Idempotency-Key: a batch has no key of its own; give each item its idempotency_key$/u,
  { "Idempotency-Key": "batch-1" },
);

test("metadata may fill a batch far beyond the size of a single request", async (t) => {
  const { call } = await startStandaloneApi(t, { db: t.context.db });
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
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
  const { call } = await startStandaloneApi(t, { db, guard });
  const { apiKeyProd: key, id: accountId } = await createTestOrganization(db);
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
      status: 400,
      error: "count: this account may register 100 units on one day (UTC), and 10 are left today",
    },
    {
      index: 5,
      status: 400,
      error: "count: this account may register 100 units on one day (UTC), and 0 are left today",
    },
  ]);
  t.deepEqual(
    parts.results.map(({ status }) => status),
    [400, 200, 400, 200, 200, 400],
  );
  t.is((await readAccountSums(db, accountId)).total, 100n);
});

test("items beyond the limit of test data are rejected, and those with a production key are not", async (t) => {
  const { db } = t.context;
  const guard = createTestGuard(t, { db, limits: { testRecords: 3 } });
  const { call } = await startStandaloneApi(t, { db, guard });
  const { apiKeyProd, apiKeyTest } = await createTestOrganization(db);
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
  const { call } = await startStandaloneApi(t, { db: t.context.db });
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
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

test("a batch of a suspended organization returns only repeated registrations", async (t) => {
  const { db } = t.context;
  const { apiKeyProd: key } = await createTestOrganization(db);
  const { call } = await startStandaloneApi(t, { db });
  await call("POST", "/plant/trees", { key, body: { count: 3, idempotency_key: "before" } });
  const find = createAuthenticator({ db, accountType: "organization" });
  const suspended = await startStandaloneApi(t, {
    db,
    authenticator: Object.assign(
      async (given: string) => {
        const caller = await find(given);
        const suspendingSubscription = { status: "past_due", meteredKinds: [...KINDS] };
        return caller && { ...caller, suspendingSubscription };
      },
      { findCached: () => null },
    ),
  });

  const { results } = batchIn(
    await suspended.call("POST", `${BATCH}?atomic=false`, {
      key,
      body: { items: [{ count: 3, idempotency_key: "before" }, { count: 1 }] },
    }),
  );

  t.deepEqual(
    results.map(({ status }) => status),
    [200, 403],
  );
});

test("a batch counts as one request for each two items", async (t) => {
  const limiter = createRequestLimiter({
    defaults: limitsForTests({ requestsPerSecond: 10 }),
    nowMs: () => 0,
  });
  const { call } = await startStandaloneApi(t, { db: t.context.db, limiter });
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
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
