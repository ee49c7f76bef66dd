import type { DatabasePool } from "slonik";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { dailyLimitMessage } from "../../modules/accounts/limits.rules.ts";
import { batchIn, rejectionIn } from "../api/batches.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";
import { createTestStore, startTwoStoreApis } from "../stores/startStoreApi.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization, registrationOf, setLimits } from "../support/factories.ts";
import { eachKind, KIND_NAMES, registrationsIn, statusesOf } from "../api/contract.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();
const forBothKinds = eachKind(test);

/** In its first minute, the units of a day are summed. Later they are counted. */
const ageLimits = (db: DatabasePool, accountId: string): Promise<unknown> =>
  db.query(sql.typeAlias("void")`
    UPDATE account_limit SET changed_at = changed_at - interval '2 minutes' WHERE account_id = ${accountId}
  `);

/** An account with a limit of a day, and two processes. */
const setUpProcesses = async (
  t: DatabaseTest,
  { isOld, ...limits }: { readonly isOld: boolean; readonly countPerDay: number },
) => {
  const { db } = t.context;
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  await setLimits(db, id, limits);
  if (isOld) {
    await ageLimits(db, id);
  }
  const processes = [await startStandaloneApi(t, { db }), await startStandaloneApi(t, { db })];
  const post = (process: number, path: string, body: object) =>
    (processes[process % 2] ?? t.fail()).call("POST", path, { key, body });
  return {
    id,
    plant: (process: number, body: object) => post(process, "/plant/trees", body),
    plantBatch: async (process: number, counts: readonly number[]) => {
      const items = counts.map((count) => ({ count }));
      const response = await post(process, "/plant/trees/batch?atomic=false", { items });
      t.is(response.status, 200);
      return statusesOf(batchIn(response).results);
    },
  };
};

test("a day's limit counts trees and bottles together, until the next day in UTC", async (t) => {
  const clock = createMovableClock("2025-06-01T23:59:00Z");
  const { call, id, apiKeyTest, post } = await startApiOf(t, { clock });
  await setLimits(t.context.db, id, { countPerDay: 10 });
  const plant = (count: number) => post("/plant/trees", { count });

  t.is((await plant(6)).status, 200);
  await ageLimits(t.context.db, id);
  t.is((await post("/rescue/plastic_bottles", { count: 2 })).status, 200);
  t.like(await plant(3), { status: 403, body: { error: dailyLimitMessage(10, 8) } });
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

for (const isOld of [false, true]) {
  const name = isOld ? "a limit" : "a new limit";
  test(`${name} of a day is exact for registrations and batches in two processes`, async (t) => {
    const { id, plant, plantBatch } = await setUpProcesses(t, { isOld, countPerDay: 100 });
    const ones = Array.from({ length: 30 }, () => 1);

    const [singles, batches] = await Promise.all([
      Promise.all(Array.from({ length: 40 }, (_, index) => plant(index, { count: 1 }))),
      Promise.all(Array.from({ length: 4 }, (_, index) => plantBatch(index, ones))),
    ]);

    const statuses = [...singles.map(({ status }) => status), ...batches.flat()];
    t.is(statuses.filter((status) => status === 200).length, 100);
    t.is(statuses.filter((status) => status === 403).length, 60);
    t.is((await plant(0, { count: 1 })).status, 403);
    t.is((await readAccountSums(t.context.db, id)).total, 100n);
  });

  test(`${name} of a day does not count replays, which get their original records beyond it`, async (t) => {
    const { id, plant } = await setUpProcesses(t, { isOld, countPerDay: 10 });
    const order = { count: 4, idempotency_key: "order-1" };

    const repeated = await Promise.all([0, 1, 0, 1].map((process) => plant(process, order)));
    t.true(repeated.every(({ status }) => status === 200));
    t.is((await plant(0, { count: 6 })).status, 200);
    t.is((await plant(1, { count: 1, idempotency_key: "order-2" })).status, 403);
    t.like(await plant(1, order), { status: 200, replayed: "true" });
    t.is((await readAccountSums(t.context.db, id)).total, 10n);
  });
}

test("a refund does not make room for more units on its day", async (t) => {
  const { id, post } = await startApiOf(t);
  await setLimits(t.context.db, id, { countPerDay: 5 });
  const body = { count: 5, idempotency_key: "order-1" };
  const planted = await post("/plant/trees", body);
  const [{ id: treeId } = { id: "" }] = registrationsIn(planted.body, "tree");

  t.is((await post("/refund/trees", { id: treeId })).status, 200);

  t.is((await post("/plant/trees", { count: 1 })).status, 403);
});

test("accounts without limits are written beside one that has reached its own", async (t) => {
  const { db } = t.context;
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const limited = await createTestOrganization(db);
  const free = await createTestOrganization(db);
  await setLimits(db, limited.id, { countPerDay: 2 });

  // One batch.
  const results = await Promise.allSettled(
    Array.from({ length: 10 }, (_, index) =>
      writer.register(
        index % 2 === 0 ? registrationOf(limited.id, { isLimited: true }) : registrationOf(free.id),
      ),
    ),
  );

  const written = results.flatMap(({ status }, index) => (status === "fulfilled" ? [index] : []));
  t.deepEqual(written, [0, 1, 2, 3, 5, 7, 9]);
});

test("a store's limit of a day is exact across two processes, and replays get their responses", async (t) => {
  const { db } = t.context;
  const processOf = await startTwoStoreApis(t, { db });
  const store = await createTestStore(db, { balanceCents: 1_000_000 });
  await setLimits(db, store.id, { countPerDay: 50 });
  const headers = { ...store.live, "Idempotency-Key": "order-1" };
  const first = await processOf(0).post("/app/api/plant", headers, { trees: 5 });
  t.is(first.status, 200);

  const responses = await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      index % 2 === 0
        ? processOf(index).post("/app/api/plant", store.live, { trees: 2 })
        : processOf(index).post("/app/api/plastic", store.live, { bottles: 2 }),
    ),
  );
  t.is(responses.filter(({ status }) => status === 200).length, 22);
  t.is((await readAccountSums(db, store.id)).total, 49n);
  const refused = await processOf(0).post("/app/api/plant", store.live, { trees: 2 });
  t.is(refused.status, 403);
  t.deepEqual(refused.body, { error: dailyLimitMessage(50, 49), code: "DAILY_LIMIT_REACHED" });
  t.is((await processOf(1).post("/app/api/plant", headers, { trees: 5 })).text, first.text);
  t.is((await processOf(1).post("/app/api/plant", store.live, { trees: 1 })).status, 200);
});

const BATCH = "/plant/trees/batch";
const ITEMS_MESSAGE = /^items: must be an array of 1 to 1000 items$/u;
const ONE = { items: [{ count: 1 }] };

/** The body, the message, and what else differs. */
const REFUSED_BATCHES: readonly (readonly [
  unknown,
  RegExp,
  { readonly query?: string; readonly status?: number; readonly headers?: Record<string, string> }?,
])[] = [
  [{ items: [] }, ITEMS_MESSAGE],
  [{}, /^items: required$/u],
  [{ items: {} }, ITEMS_MESSAGE],
  [{ items: Array.from({ length: 1001 }, () => ({ count: 1 })) }, ITEMS_MESSAGE],
  [" ".repeat(1024 * 1024 + 1), /1024 KiB/u, { status: 413 }],
  [
    { ...ONE, idempotencyKey: "k" },
    /^idempotencyKey: must be given as idempotency_key of each item$/u,
  ],
  [
    { items: [{ count: 1 }, { count: 1, "idempotency-key": "k" }] },
    /idempotency-key: must be given as idempotency_key/u,
  ],
  [ONE, /^atomic: must be true or false$/u, { query: "?atomic=no" }],
  [
    ONE,
    /^Idempotency-Key: not accepted for a batch; set idempotency_key on each item$/u,
    { headers: { "Idempotency-Key": "batch-1" } },
  ],
];

test("a batch that is wrong as a whole is refused, and records nothing", async (t) => {
  const { call, key, id: accountId } = await startApiOf(t);
  for (const [body, message, { query = "", status = 400, headers } = {}] of REFUSED_BATCHES) {
    const response = await call("POST", BATCH + query, { key, body, ...(headers && { headers }) });

    t.is(response.status, status, String(message));
    t.regex(String(response.body["error"]), message);
  }
  t.is((await readAccountSums(t.context.db, accountId)).registrations, 0);
});

test("items beyond the limit of a day are rejected by their index, except repeated ones", async (t) => {
  const { db } = t.context;
  const { id: accountId, post } = await startApiOf(t);
  await setLimits(db, accountId, { countPerDay: 100 });
  await post("/plant/trees", { count: 40, idempotency_key: "first" });
  const body = {
    items: [
      { count: 101 },
      { count: 50 },
      { count: 20, idempotency_key: "late" },
      { count: 40, idempotency_key: "first" },
      { count: 10 },
      { count: 1 },
      // It would be recorded if it only repeated the late one.
      { count: 1, fractional_count: 0.5, idempotency_key: "late" },
    ],
  };

  const whole = rejectionIn(await post(BATCH, body));
  for (const onAnotherDay of [body.items.slice(1, -1), [{ count: 61 }]]) {
    t.is((await post(BATCH, { items: onAnotherDay })).status, 403);
  }
  const parts = batchIn(await post(`${BATCH}?atomic=false`, body));

  const error = "count: must be at most 100, this account's limit for one day";
  t.deepEqual(whole.errors.slice(0, 3), [
    { index: 0, status: 400, error },
    { index: 2, status: 403, error: dailyLimitMessage(100, 90) },
    { index: 5, status: 403, error: dailyLimitMessage(100, 100) },
  ]);
  t.deepEqual(statusesOf(parts.results), [400, 200, 403, 200, 200, 403, 400]);
  t.is((await readAccountSums(db, accountId)).total, 100n);
});

test("of a batch that would increase the total beyond what JSON carries, nothing is recorded", async (t) => {
  const { id, post } = await startApiOf(t);
  await post("/plant/trees", { count: 1, idempotency_key: "first" });
  const items = [
    { count: 5 },
    { count: Number.MAX_SAFE_INTEGER },
    { count: 7 },
    { count: Number.MAX_SAFE_INTEGER, idempotency_key: "first" },
  ];
  for (const path of [BATCH, `${BATCH}?atomic=false`]) {
    const { status, body } = await post(path, { items });
    t.is(status, 400);
    t.regex(String(body["error"]), /^count: would increase the account's total/u);
  }
  t.like(await readAccountSums(t.context.db, id), { registrations: 1, total: 1n, usage: 1n });
});

forBothKinds("fractional counts are stored if they are enabled", async (t, kind) => {
  const { path, total } = KIND_NAMES[kind];
  const { get, post } = await startApiOf(t, { organization: { fractionalCounting: true } });

  const { body } = await post(path, { count: 2, fractional_count: 1.25 });

  t.like(registrationsIn(body, kind)[0], { count: 2, fractional_count: 1.25 });
  t.is(body[total], 2);
  const without = await post(path, { count: 3 });
  t.like(registrationsIn(without.body, kind)[0], { count: 3, fractional_count: 3 });
  const listed = registrationsIn((await get(path)).body, kind);
  t.like(listed, [{ fractional_count: 3 }, { fractional_count: 1.25 }]);
  t.is(listed.length, 2);
});

test("a refused request uses nothing of a limit, and its error is not that of a limit", async (t) => {
  const { id, post } = await startApiOf(t);
  await setLimits(t.context.db, id, { countPerDay: 2 });
  const register = (body: object) => post("/plant/trees", body);

  const refused = await register({ count: 3, fractional_count: 0, idempotency_key: "a" });
  t.is(refused.status, 400);
  t.regex(String(refused.body["error"]), /^fractional_count: .*not enabled/u);
  t.is((await register({ count: 2 })).status, 200);
});
