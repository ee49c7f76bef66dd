import { z } from "zod";
import { addToTestRecordCounts, readTestRecordCount } from "../../db/accounts/testRecordCounts.ts";
import { addToDailyCounts } from "../../db/registrations/dailyCounts.ts";
import { SERVICE } from "../../domain/accounts/audit.ts";
import { refill } from "../../domain/accounts/limits.ts";
import type { TokenBucket } from "../../domain/accounts/limits.ts";
import { systemClock } from "../../domain/clock.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { createAuthenticator } from "../../services/accounts/createAuthenticator.ts";
import { createRequestLimiter } from "../../services/accounts/createRequestLimiter.ts";
import { issueKey } from "../../services/accounts/issueKey.ts";
import { recountAllTestRecords } from "../../services/accounts/recountAllTestRecords.ts";
import { drainUsage } from "../../services/billing/sending/drainUsage.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { deleteOldTestRegistrations } from "../../services/registrations/deleteOldTestRegistrations.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";
import { readJson, impactOf, runImpact } from "../cli/runImpact.ts";
import { createTestStore, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestGuard, createTestOrganization, limitsForTests } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

const NEVER = new AbortController().signal;

/** Limits of two requests a second, and a clock that stands still until the test moves it. */
const slowLimits = (requestsPerSecond = 2) => {
  const time = { nowMs: 0 };
  const limiter = createRequestLimiter({
    defaults: limitsForTests({ requestsPerSecond }),
    nowMs: () => time.nowMs,
  });
  return { limiter, time };
};

test("a bucket refills at its rate and holds two seconds of it", (t) => {
  const bucket: TokenBucket = { tokens: 0, filledAtMs: 1000 };
  t.is(refill(bucket, 10, 1000), 0);
  t.is(refill(bucket, 10, 1099), 0);
  t.is(refill(bucket, 10, 1100), 1);
  t.is(refill(bucket, 10, 1550), 5);
  t.is(refill(bucket, 10, 60_000), 20);
});

test("requests beyond a key's allowance are a 429 until it refills", async (t) => {
  const { limiter, time } = slowLimits();
  const { call, apiKeyTest: key } = await startApiOf(t, { limiter });
  const plant = () => call("POST", "/plant/trees", { key, body: { count: 1 } });

  const first = await plant();
  t.is(first.status, 200);
  t.is(first.headers.get("RateLimit-Policy"), '"key";q=4;w=2, "account";q=8;w=2');
  t.is(first.headers.get("RateLimit"), '"key";r=3;t=1');
  for (const left of [2, 1, 0]) {
    t.is((await plant()).headers.get("RateLimit"), `"key";r=${left};t=${left === 2 ? 1 : 2}`);
  }

  const rejected = await plant();
  t.is(rejected.status, 429);
  t.deepEqual(rejected.body, { error: "too many requests: this key may send 2 a second" });
  t.is(rejected.headers.get("Retry-After"), "1");
  t.is(rejected.headers.get("RateLimit"), '"key";r=0;t=2');
  t.is((await call("GET", "/plant/trees", { key })).status, 429);

  time.nowMs += 500;
  const later = await plant();
  t.is(later.status, 200);
  t.is(later.body["total_planted_trees"], 5);
});

test("all keys of an account and mode share twice the allowance of a key, and no other account feels it", async (t) => {
  const { db } = t.context;
  const { limiter } = slowLimits();
  const { call, id, apiKeyTest, apiKeyProd } = await startApiOf(t, { limiter });
  const more = [1, 2].map(async () => {
    const issued = await issueKey(
      { db, clock: systemClock, actor: SERVICE },
      { id, type: "organization" },
      "test",
    );
    return issued.key;
  });
  const statuses = [];
  for (const key of [apiKeyTest, ...(await Promise.all(more))]) {
    for (const _ of [1, 2, 3]) {
      statuses.push((await call("GET", "/evidence", { key })).status);
    }
  }
  t.deepEqual(statuses, [200, 200, 200, 200, 200, 200, 200, 200, 429]);

  t.is((await call("GET", "/evidence", { key: apiKeyProd })).status, 200);
  const other = await createTestOrganization(db);
  t.is((await call("GET", "/evidence", { key: other.apiKeyTest })).status, 200);
});

test("requests of one account at the same time are limited", async (t) => {
  const { db } = t.context;
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const gate = Promise.withResolvers<void>();
  const limiter = createRequestLimiter({ defaults: limitsForTests({ concurrentRequests: 2 }) });
  const arrived = { count: 0 };
  const twoArrived = Promise.withResolvers<void>();
  const { call } = await startStandaloneApi(t, {
    ...t.context,
    limiter,
    writer: {
      ...writer,
      register: async (entry) => {
        arrived.count += 1;
        if (arrived.count === 2) {
          twoArrived.resolve();
        }
        await gate.promise;
        return writer.register(entry);
      },
    },
  });
  const { apiKeyProd: key } = await createTestOrganization(db);
  const neighbour = await createTestOrganization(db);
  const plant = () => call("POST", "/plant/trees", { key, body: { count: 1 } });
  const waiting = [plant(), plant()];
  await twoArrived.promise;

  const rejected = await plant();
  t.is(rejected.status, 429);
  t.deepEqual(rejected.body, {
    error: "too many requests at the same time: this account may have 2",
  });
  t.is((await call("GET", "/evidence", { key: neighbour.apiKeyProd })).status, 200);

  gate.resolve();
  t.deepEqual(
    (await Promise.all(waiting)).map(({ status }) => status),
    [200, 200],
  );
  t.is((await plant()).status, 200);
});

test("the store interface has the same limits", async (t) => {
  const { limiter } = slowLimits(1);
  const { get: read, store } = await startStoreApiOf(t, { limiter });
  t.is((await read("/app/api/balance", store.live)).status, 200);
  t.is((await read("/app/api/balance", store.live)).status, 200);

  const rejected = await read("/app/api/balance", store.live);
  t.is(rejected.status, 429);
  t.deepEqual(rejected.body, {
    error: "too many requests: this key may send 1 a second",
    code: "OVERLOADED",
  });
  t.is(rejected.headers.get("RateLimit-Policy"), '"key";q=2;w=2, "account";q=4;w=2');
  t.is((await read("/app/api/balance", store.test)).status, 200);
});

test("an operator sets limits for one mode of an account, sees them and restores the default", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const organization = await createTestOrganization(db);
  const run = async (...args: readonly string[]) => {
    const result = await impact(...args);
    t.is(result.exitCode, 0, result.stderr);
    return result;
  };
  const limitsShown = async () => readJson(await run("org", "show", organization.id, "--json"));
  const unset = {
    requests_per_second: null,
    concurrent_requests: null,
    open_lists: null,
    count_per_request: null,
    count_per_day: null,
  };

  await run(
    ...`org update ${organization.id} --mode test --requests-per-second 7 --count-per-day 9007199254740991`.split(
      " ",
    ),
  );
  t.like(await limitsShown(), {
    limits: [
      { mode: "live", ...unset },
      { mode: "test", ...unset, requests_per_second: 7, count_per_day: Number.MAX_SAFE_INTEGER },
    ],
  });

  const { limiter } = slowLimits();
  const policyOf = async (key: string) => {
    // Without the cache of an earlier request.
    const authenticator = createAuthenticator({ db, accountType: "organization" });
    const { call } = await startStandaloneApi(t, { ...t.context, limiter, authenticator });
    return (await call("GET", "/evidence", { key })).headers.get("RateLimit-Policy");
  };
  t.is(await policyOf(organization.apiKeyTest), '"key";q=14;w=2, "account";q=28;w=2');
  t.is(await policyOf(organization.apiKeyProd), '"key";q=4;w=2, "account";q=8;w=2');

  await run(
    ...`org update ${organization.id} --mode test --requests-per-second default`.split(" "),
  );
  t.is(await policyOf(organization.apiKeyTest), '"key";q=4;w=2, "account";q=8;w=2');

  const store = await createTestStore(db);
  await run(..."store update".split(" "), store.domain, "--open-lists", "3");
  t.like(readJson(await run("store", "show", store.domain, "--json")), {
    limits: [
      { mode: "live", ...unset, open_lists: 3 },
      { mode: "test", ...unset },
    ],
  });
});

for (const value of ["0", "-1", "1.5", "many", "1e3"]) {
  test(`a limit of ${value} is refused`, async (t) => {
    const { id } = await createTestOrganization(t.context.db);
    const run = await runImpact(["org", "update", id, `--requests-per-second=${value}`], {
      env: { DATABASE_URL: t.context.databaseUrl },
    });
    t.is(run.exitCode, 2);
    t.regex(run.stderr, /Must be a number from 1 to 1000000, or default\./u);
  });
}

const fullMessage = (records: number): string =>
  `test data limit reached: this account's test keys may store at most ${records} records. ` +
  "Old test data may be deleted automatically; ask the service's operator to raise the limit";

test("test keys store registrations, refunds and donations up to their limit, and production keys more", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { testRecords: 4 } });
  const { call, apiKeyTest: key, apiKeyProd } = await startApiOf(t, { guard });
  const plant = { count: 3, idempotency_key: "order-1" };
  const rescue = { count: 1 };
  const give = { amount_cents: 500, ein: "530196605", idempotency_key: "gift-1" };

  const planted = await call("POST", "/plant/trees", { key, body: plant });
  t.is(planted.status, 200);
  const [{ id } = { id: "" }] = z
    .array(z.looseObject({ id: z.string() }))
    .parse(planted.body["tree_details"]);
  const refund = { id, count: 1, idempotency_key: "refund-1" };
  t.is((await call("POST", "/plant/trees", { key, body: plant })).status, 200, "a replay is free");
  t.is((await call("POST", "/refund/trees", { key, body: refund })).status, 200);
  t.is((await call("POST", "/charities/donate", { key, body: give })).status, 200);
  t.is((await call("POST", "/rescue/plastic_bottles", { key, body: rescue })).status, 200);

  for (const [path, body] of [
    ["/plant/trees", { count: 1 }],
    ["/rescue/plastic_bottles", { count: 1 }],
    ["/refund/trees", { id, count: 1 }],
    ["/charities/donate", { amount_cents: 1, ein: "530196605" }],
  ] as const) {
    const refused = await call("POST", path, { key, body });
    t.is(refused.status, 403, path);
    t.deepEqual(refused.body, { error: fullMessage(4) });
  }
  for (const [path, body] of [
    ["/plant/trees", plant],
    ["/refund/trees", refund],
    ["/charities/donate", give],
  ] as const) {
    const repeated = await call("POST", path, { key, body });
    t.is(repeated.status, 200, path);
    t.is(repeated.headers.get("Idempotent-Replayed"), "true");
  }
  const list = await call("GET", "/plant/trees", { key });
  t.is(list.body["total_planted_trees"], 2);
  for (const _ of [1, 2, 3, 4, 5]) {
    t.is((await call("POST", "/plant/trees", { key: apiKeyProd, body: plant })).status, 200);
  }
});

test("a store's test keys have the same limit, with a different code", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { testRecords: 3 } });
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 }, guard });
  const reversal = { type: "tree", quantity: 1 };
  const repeatable = { ...store.test, "Idempotency-Key": "order-1" };
  const donation = { charity_id: "53-0196605", amount: 5 };

  const first = await post("/app/api/plant", repeatable, { trees: 2 });
  t.is(first.status, 200);
  t.is((await post("/app/api/refund", store.test, reversal)).status, 200);
  t.is((await post("/app/api/charity/donate", store.test, donation)).status, 200);
  for (const [path, body] of [
    ["/app/api/plant", { trees: 1 }],
    ["/app/api/plastic", { bottles: 1 }],
    ["/app/api/refund", reversal],
    ["/app/api/charity/donate", donation],
  ] as const) {
    const refused = await post(path, store.test, body);
    t.is(refused.status, 403, path);
    t.deepEqual(refused.body, { error: fullMessage(3), code: "TEST_QUOTA_REACHED" });
  }
  t.is((await post("/app/api/plant", repeatable, { trees: 2 })).text, first.text);
  t.is((await post("/app/api/plant", store.live, { trees: 1 })).status, 200);
});

test("concurrent requests do not pass the limit together, and rejected ones use nothing", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { testRecords: 5 } });
  const { call, id, apiKeyTest: key } = await startApiOf(t, { guard });
  const statuses = await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      // Every second one is refused by the domain and stores nothing.
      const path = index % 2 === 0 ? "/plant/trees" : "/refund/trees";
      const body = index % 2 === 0 ? { count: 1 } : { id: "unknown" };
      return (await call("POST", path, { key, body })).status;
    }),
  );
  t.true(statuses.filter((status) => status === 200).length <= 5);
  await eventually(
    async () => (await call("POST", "/plant/trees", { key, body: { count: 1 } })).status === 403,
  );
  await guard.store();
  t.is(await readTestRecordCount(t.context.db, id), 5);
});

test("processes learn each other's counts, and writes go on after old test data were deleted", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-03-30T12:00:00.000Z");
  const limits = { testRecords: 3 };
  const guards = [1, 2].map(() => createTestGuard(t, { db, clock, limits }));
  const [one, other] = await Promise.all(
    guards.map((guard) => startStandaloneApi(t, { db, clock, guard })),
  );
  const { id, apiKeyTest: key } = await createTestOrganization(db);
  const plant = async (api: typeof one) =>
    (await api?.call("POST", "/plant/trees", { key, body: { count: 1 } }))?.status;

  t.is(await plant(one), 200);
  t.is(await plant(one), 200);
  await guards[0]?.store();
  t.is(await plant(other), 200);
  await guards[1]?.store();
  t.is(await plant(other), 403);
  t.is(await readTestRecordCount(db, id), 3);

  clock.set("2026-03-31T12:00:00.000Z");
  await drainUsage(
    { db, clock, billing: createBilling({ db, stripe: null }) },
    { accountId: id, mode: "test", meter: "tree" },
    { signal: NEVER, onResult: () => undefined },
  );
  const { registrations } = await deleteOldTestRegistrations(db, clock.now(), NEVER);
  t.is(registrations, 3);
  await recountAllTestRecords(db, NEVER);
  t.is(await readTestRecordCount(db, id), 0);
  // A rejected write makes the process read the count again.
  await eventually(async () => {
    await guards[1]?.store();
    return (await plant(other)) === 200;
  });
});

test("operators set the limit of test data of an account", async (t) => {
  const { db, databaseUrl } = t.context;
  const guard = createTestGuard(t, { db, limits: { testRecords: 1 } });
  const { id, apiKeyTest: key } = await createTestOrganization(db);
  const impact = (...args: string[]) => runImpact(args, { env: { DATABASE_URL: databaseUrl } });

  const wrongMode = await impact("org", "update", id, "--test-records", "5");
  t.is(wrongMode.exitCode, 2);
  t.regex(wrongMode.stderr, /--test-records requires --mode test/u);
  t.is((await impact("org", "update", id, "--mode", "test", "--test-records", "2")).exitCode, 0);
  const { call } = await startStandaloneApi(t, { db, guard });
  const plant = async () =>
    (await call("POST", "/plant/trees", { key, body: { count: 1 } })).status;
  t.deepEqual([await plant(), await plant(), await plant()], [200, 200, 403]);
  await guard.store();
  const shown = readJson(await impact("org", "show", id, "--json"));
  t.like(shown, { stored_test_records: 2 });
  t.regex((await impact("org", "show", id)).stdout, /stored test records +2\n/u);
});

test("counts of an account that a failover has lost do not keep others from being stored", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const owners = [crypto.randomUUID(), id].map((accountId) => ({ accountId, count: 3 }));
  const ofDay = owners.map((owner) => ({ ...owner, mode: "live", day: "2025-06-01" }) as const);

  t.deepEqual(await addToDailyCounts(db, ofDay), ofDay.slice(1));
  t.deepEqual(await addToTestRecordCounts(db, owners), owners.slice(1));
});
