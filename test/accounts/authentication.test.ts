import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { cacheLookups, CACHED_MS, UNKNOWN_MS } from "../../modules/accounts/cacheLookups.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { impactOf } from "../cli/runImpact.ts";
import { countCalls } from "../support/countCalls.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { listOperations } from "../api/responseChecker.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";

const test = testWithDatabase();

test("a missing key and a wrong key are a 403 on every endpoint", async (t) => {
  const { url, call, apiKeyProd } = await startApiOf(t);
  const operations = await listOperations(url);
  const keyed = operations.filter(({ operation: { responses } }) => "403" in responses);
  t.true(keyed.length > 30);
  const wrong = [undefined, `${apiKeyProd}x`, `Bearer ${apiKeyProd}`, `bearer  ${apiKeyProd}`];
  for (const { name, method, path } of keyed) {
    for (const key of wrong) {
      const response = await call(method, path, key === undefined ? {} : { key });
      const is401 = path === "/dashboard_url" && key === undefined;

      t.is(response.status, is401 ? 401 : 403, `${name} with ${key}`);
      const error = is401 ? "missing Authorization header" : "invalid API key";
      t.deepEqual(response.body, { error });
    }
  }
});

test("the key is checked after the path and the method and before the query and the body", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);

  t.is((await call("POST", "/plant/trees", { body: "{not json" })).status, 403);
  t.is((await call("POST", "/plant/trees", { body: "x".repeat(100_000) })).status, 403);
  t.is((await call("GET", "/plant/trees?foo=1")).status, 403);
  t.is((await call("GET", "/plant/nothing")).status, 404);
  t.is((await call("DELETE", "/plant/trees")).status, 405);
});

test("once key revoke returns, the next request with the key is rejected by every process", async (t) => {
  const { db } = t.context;
  const processes = [await startStandaloneApi(t, { db }), await startStandaloneApi(t, { db })];
  const { id, apiKeyProd, apiKeyTest } = await createTestOrganization(db);
  const statuses = (key: string) =>
    Promise.all(
      processes.map(async ({ call }) => (await call("GET", "/dashboard_url", { key })).status),
    );
  t.deepEqual(await statuses(apiKeyProd), [200, 200]);
  const live = (await listApiKeys(db, id)).find(({ mode }) => mode === "live");

  const command = { hasEnded: false };
  const revoking = impactOf(t)("key", "revoke", live?.id ?? "").finally(() => {
    command.hasEnded = true;
  });
  // Constant use must not prolong it.
  while (!command.hasEnded) {
    await statuses(apiKeyProd);
  }
  const revoked = await revoking;

  t.deepEqual(await statuses(apiKeyProd), [403, 403]);
  t.is(revoked.exitCode, 0, revoked.stderr);
  t.deepEqual(await statuses(apiKeyTest), [200, 200]);
});

test("neither keys nor a client's content are logged", async (t) => {
  const { call, logged, key } = await startApiOf(t);
  await call("POST", "/plant/trees", { key, body: { count: 1, attribution: "secret-tag" } });
  await call("POST", "/plant/trees", { key, body: { count: 1, [key]: 1 } });
  await call("POST", "/plant/trees", { key, body: `{"count": "${key}` });
  await call("GET", `/plant/trees?${key}=secret-tag`, { key });
  await call("GET", `/${key}`, { key });
  await call("GET", "/plant/trees", { key: `${key}x` });
  await call("GET", "/plant/trees", { key, headers: { "X-Api-Key": key } });

  const log = JSON.stringify(logged());
  // The description is read for the checks of responses.
  t.is(logged().filter(({ route }) => route !== "/openapi.json").length, 7);
  t.false(log.includes(key));
  t.false(log.includes(key.slice(12, 24)));
  t.false(log.includes("secret-tag"));
});

test("made-up keys wait for one query at a time, and are remembered as unknown for a moment", async (t) => {
  const clock = { nowMs: 1 };
  let running = 0;
  const counts: number[] = [];
  const db = new Proxy(t.context.db, {
    get: () => async () => {
      running += 1;
      counts.push(running);
      await new Promise(setImmediate);
      running -= 1;
      return [];
    },
  });
  const authenticate = createAuthenticator({ db, nowMs: () => clock.nowMs });
  const madeUp = Array.from({ length: 450 }, () => crypto.randomUUID());

  const callers = await Promise.all([...madeUp, ...madeUp].map(authenticate));
  t.true(callers.every((caller) => caller === null));
  t.deepEqual(counts, [1, 1, 1], "a query looks up 200 keys");

  clock.nowMs += UNKNOWN_MS - 1;
  await Promise.all(madeUp.map(authenticate));
  t.is(counts.length, 3);

  clock.nowMs += 2;
  t.is(await authenticate(madeUp[0] ?? ""), null);
  t.is(counts.length, 4);
});

test("made-up keys do not displace known ones, and what cannot be a key is not looked up", async (t) => {
  const { db } = t.context;
  const { apiKeyTest } = await createTestOrganization(db);
  const { db: counting, count } = countCalls(db);
  const authenticate = createAuthenticator({ db: counting, nowMs: () => 1 });
  await authenticate(apiKeyTest);
  await Promise.all(Array.from({ length: 11_000 }, () => authenticate(crypto.randomUUID())));
  const before = count();

  t.like(await authenticate(apiKeyTest), { mode: "test" });
  t.is(await authenticate("short"), null);
  t.is(await authenticate("x".repeat(257)), null);
  t.is(count(), before);
});

test("a lookup that began before a key was revoked, and ends later, is not cached", async (t) => {
  const clock = { nowMs: 1 };
  const answers: ((caller: { readonly id: string } | null) => void)[] = [];
  const find = cacheLookups(
    () => new Promise<{ readonly id: string } | null>((resolve) => void answers.push(resolve)),
    () => clock.nowMs,
  );

  const slow = find("key");
  clock.nowMs += CACHED_MS + 1;
  answers[0]?.({ id: "read before" });
  t.deepEqual(await slow, { id: "read before" });
  const next = find("key");
  answers[1]?.(null);

  t.is(await next, null);
});
