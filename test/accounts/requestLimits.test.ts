import { createOpenLists } from "../../api/http/lists/openLists.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import { SERVICE } from "../../domain/accounts/audit.ts";
import type { LimitOverrides, TokenBucket } from "../../domain/accounts/limits.ts";
import { refill } from "../../domain/accounts/limits.ts";
import { systemClock } from "../../domain/clock.ts";
import { createAuthenticator } from "../../services/accounts/createAuthenticator.ts";
import { createRequestLimiter } from "../../services/accounts/createRequestLimiter.ts";
import { issueKey } from "../../services/accounts/issueKey.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, limitsForTests } from "../support/factories.ts";

const test = testWithDatabase();

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
  const { call } = await startStandaloneApi(t, { ...t.context, limiter });
  const { apiKeyTest: key } = await createTestOrganization(t.context.db);
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
  const { call } = await startStandaloneApi(t, { ...t.context, limiter });
  const { id, apiKeyTest, apiKeyProd } = await createTestOrganization(db);
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

test("an operator's limit for open lists replaces the default, and test keys have a quarter of it", (t) => {
  const lists = createOpenLists({ maximum: 100, maximumPerAccount: 6 });
  const openAll = (mode: Mode, limits: LimitOverrides | null): number => {
    let opened = 0;
    const open = (): void => {
      for (;;) {
        lists.open({ accountId: "a", mode, limits });
        opened += 1;
      }
    };
    t.throws(open, { message: /^too many lists are being read: at most \d at the same time$/u });
    return opened;
  };
  const nothingSet = {
    requestsPerSecond: null,
    concurrentRequests: null,
    openLists: null,
    countPerRequest: null,
    countPerDay: null,
    testRecords: null,
  };
  t.is(openAll("live", null), 6);
  t.is(openAll("test", nothingSet), 2);
  t.is(openAll("test", { ...nothingSet, openLists: 9 }), 7);
});

test("the store interface has the same limits", async (t) => {
  const { limiter } = slowLimits(1);
  const { get: read } = await startStoreApi(t, { ...t.context, limiter });
  const store = await createTestStore(t.context.db);
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
  const { db, databaseUrl } = t.context;
  const env = { DATABASE_URL: databaseUrl };
  const organization = await createTestOrganization(db);
  const run = async (...args: readonly string[]) => {
    const result = await runImpact(args, { env });
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
