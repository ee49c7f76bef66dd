import { SERVICE } from "../../domain/accounts/audit.ts";
import { systemClock } from "../../domain/clock.ts";
import { updateOrganization } from "../../services/accounts/updateOrganization.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eachKind, idIn, KIND_NAMES, registrationsIn } from "../api/contract.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";

const test = testWithDatabase();

const forBothKinds = eachKind(test);

forBothKinds(
  "the response to a registration has all of its fields and the totals",
  async (t, kind) => {
    const { path, total, month, details } = KIND_NAMES[kind];
    const clock = createMovableClock("2026-03-10T09:08:07.006Z");
    const { call, key } = await startApiOf(t, { clock });
    await call("POST", path, { key, body: { count: 2 } });

    const { status, body, headers } = await call("POST", path, {
      key,
      body: {
        count: 3,
        attribution: "newsletter",
        metadata: { campaign: "spring", nested: { list: [1, null, true, "é😀"] } },
        idempotency_key: "order-1",
      },
    });

    t.is(status, 200);
    t.false(headers.has("Idempotent-Replayed"));
    const id = idIn(body, kind);
    t.deepEqual(body, {
      [total]: 5,
      [month]: 5,
      [details]: [
        {
          id,
          count: 3,
          fractional_count: 0,
          created_at: "2026-03-10T09:08:07.006Z",
          idempotency_key: "order-1",
          metadata: { campaign: "spring", nested: { list: [1, null, true, "é😀"] } },
          attribution: "newsletter",
          refunded: false,
          refunded_count: 0,
        },
      ],
    });
    const list = await call("GET", `${path}?id=${id}`, { key });
    t.deepEqual(list.body, body);
  },
);

forBothKinds(
  "omitted fields are empty, and an empty idempotency key means none",
  async (t, kind) => {
    const { path } = KIND_NAMES[kind];
    const { call, key } = await startApiOf(t);

    const { body } = await call("POST", path, { key, body: { count: 1, idempotency_key: "" } });
    const again = await call("POST", path, { key, body: { count: 1, idempotency_key: "" } });

    t.like(registrationsIn(body, kind)[0], { attribution: "", metadata: {}, idempotency_key: "" });
    t.false(again.headers.has("Idempotent-Replayed"));
    t.is(again.body[KIND_NAMES[kind].total], 2);
  },
);

forBothKinds(
  "a known idempotency key returns the original record and records nothing, whatever the body",
  async (t, kind) => {
    const { path, total } = KIND_NAMES[kind];
    const { call, key } = await startApiOf(t);
    const first = await call("POST", path, { key, body: { count: 3, idempotency_key: "k" } });

    const replay = await call("POST", path, {
      key,
      body: { count: 7, attribution: "other", idempotency_key: "k" },
    });

    t.is(replay.status, 200);
    t.is(replay.headers.get("Idempotent-Replayed"), "true");
    t.deepEqual(replay.body, first.body);
    t.is((await call("GET", path, { key })).body[total], 3);
    t.is(registrationsIn((await call("GET", path, { key })).body, kind).length, 1);
  },
);

test("200 concurrent requests with one key make one record and 199 replays", async (t) => {
  const { call, key } = await startApiOf(t);

  const responses = await Promise.all(
    Array.from({ length: 200 }, () =>
      call("POST", "/plant/trees", { key, body: { count: 2, idempotency_key: "same" } }),
    ),
  );

  const ids = new Set(responses.map(({ body }) => JSON.stringify(body["tree_details"])));
  t.is(ids.size, 1);
  t.is(responses.filter(({ headers }) => headers.has("Idempotent-Replayed")).length, 199);
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 2);
});

test("trees and bottles have separate idempotency keys", async (t) => {
  const { call, key } = await startApiOf(t);
  await call("POST", "/plant/trees", { key, body: { count: 1, idempotency_key: "k" } });

  const { headers, body } = await call("POST", "/rescue/plastic_bottles", {
    key,
    body: { count: 4, idempotency_key: "k" },
  });

  t.false(headers.has("Idempotent-Replayed"));
  t.is(body["total_rescued_bottles"], 4);
});

forBothKinds("the month's total starts at 0 with each month in UTC", async (t, kind) => {
  const { path, total, month } = KIND_NAMES[kind];
  const clock = createMovableClock("2026-01-31T23:59:59.999Z");
  const { call, key } = await startApiOf(t, { clock });
  await call("POST", path, { key, body: { count: 5 } });

  clock.set("2026-02-01T00:00:00.000Z");

  t.like((await call("GET", path, { key })).body, { [total]: 5, [month]: 0 });
  const { body } = await call("POST", path, { key, body: { count: 2 } });
  t.like(body, { [total]: 7, [month]: 2 });
});

forBothKinds("the two modes share no records, totals or idempotency keys", async (t, kind) => {
  const { path, total, details } = KIND_NAMES[kind];
  const { call, apiKeyProd, apiKeyTest } = await startApiOf(t);
  const live = await call("POST", path, {
    key: apiKeyProd,
    body: { count: 3, idempotency_key: "k" },
  });

  const inTest = await call("POST", path, {
    key: apiKeyTest,
    body: { count: 8, idempotency_key: "k" },
  });

  t.false(inTest.headers.has("Idempotent-Replayed"));
  t.is(inTest.body[total], 8);
  t.is((await call("GET", path, { key: apiKeyProd })).body[total], 3);
  const id = idIn(live.body, kind);
  t.deepEqual((await call("GET", `${path}?id=${id}`, { key: apiKeyTest })).body[details], []);
});

forBothKinds("another organization can neither list nor replay a record", async (t, kind) => {
  const { path, total, details } = KIND_NAMES[kind];
  const { call } = await startStandaloneApi(t, t.context);
  const owner = await createTestOrganization(t.context.db);
  const other = await createTestOrganization(t.context.db);
  const created = await call("POST", path, {
    key: owner.apiKeyProd,
    body: { count: 3, idempotency_key: "k" },
  });
  const id = idIn(created.body, kind);

  const replay = await call("POST", path, {
    key: other.apiKeyProd,
    body: { count: 1, idempotency_key: "k" },
  });

  t.false(replay.headers.has("Idempotent-Replayed"));
  t.is(replay.body[total], 1);
  const list = await call("GET", `${path}?id=${id}`, { key: other.apiKeyProd });
  t.deepEqual(list.body[details], []);
  t.is(list.status, 200);
});

test("the id of a tree registration is unknown among the bottles", async (t) => {
  const { call, key } = await startApiOf(t);
  const { body } = await call("POST", "/plant/trees", { key, body: { count: 1 } });
  const id = idIn(body, "tree");

  const list = await call("GET", `/rescue/plastic_bottles?id=${id}`, { key });

  t.deepEqual(list.body["bottle_details"], []);
});

forBothKinds("fractional counts are stored if they are enabled", async (t, kind) => {
  const { path, total } = KIND_NAMES[kind];
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db, {
    fractionalCounting: true,
  });

  const { body } = await call("POST", path, { key, body: { count: 2, fractional_count: 1.25 } });

  t.like(registrationsIn(body, kind)[0], { count: 2, fractional_count: 1.25 });
  t.is(body[total], 2);
  const without = await call("POST", path, { key, body: { count: 3 } });
  t.like(registrationsIn(without.body, kind)[0], { count: 3, fractional_count: 3 });
  const list = await call("GET", path, { key });
  t.deepEqual(
    registrationsIn(list.body, kind).map((each) => each.fractional_count),
    [3, 1.25],
  );
});

test("a refused request uses nothing of a limit, and its error is not that of a limit", async (t) => {
  const { db } = t.context;
  const { call, id, key } = await startApiOf(t);
  const limits = { mode: "live", changes: { countPerDay: 2 } } as const;
  await updateOrganization({ db, clock: systemClock, actor: SERVICE }, id, {}, { limits });
  const register = (body: object) => call("POST", "/plant/trees", { key, body });

  const refused = await register({ count: 3, fractional_count: 2.5, idempotency_key: "a" });
  t.is(refused.status, 400);
  t.regex(String(refused.body["error"]), /^fractional_count: .*not enabled/u);
  t.is((await register({ count: 2 })).status, 200);
});

test("a fractional count, even 0, is rejected by name if it is not enabled", async (t) => {
  const { call, key } = await startApiOf(t);

  const { status, body } = await call("POST", "/plant/trees", {
    key,
    body: { count: 2, fractional_count: 0 },
  });

  t.is(status, 400);
  t.regex(String(body["error"]), /^fractional_count: .*not enabled/u);
});

test("once fractions are not counted any more, a request with one returns only the record of an earlier request", async (t) => {
  const { db } = t.context;
  const { id, apiKeyProd: key } = await createTestOrganization(db, { fractionalCounting: true });
  const before = await startStandaloneApi(t, { db });
  const body = { count: 2, fractional_count: 1.25, idempotency_key: "before" };
  await before.call("POST", "/plant/trees", { key, body });
  await updateOrganization({ db, clock: systemClock, actor: SERVICE }, id, {
    fractionalCounting: false,
  });
  const { call } = await startStandaloneApi(t, { db });

  const replay = await call("POST", "/plant/trees", { key, body });
  const other = await call("POST", "/plant/trees", {
    key,
    body: { ...body, idempotency_key: "new" },
  });

  t.is(replay.status, 200);
  t.is(replay.headers.get("Idempotent-Replayed"), "true");
  t.like(registrationsIn(replay.body, "tree")[0], { count: 2, fractional_count: 1.25 });
  t.is(other.status, 400);
  t.regex(String(other.body["error"]), /^fractional_count: .*not enabled/u);
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 2);
});

test("the largest count is stored exactly, and a larger total is rejected", async (t) => {
  const { call, key } = await startApiOf(t);

  const largest = await call("POST", "/plant/trees", {
    key,
    body: { count: Number.MAX_SAFE_INTEGER },
  });
  const beyond = await call("POST", "/plant/trees", { key, body: { count: 1 } });

  t.is(largest.body["total_planted_trees"], Number.MAX_SAFE_INTEGER);
  t.is(beyond.status, 400);
  t.regex(String(beyond.body["error"]), /^count: /u);
  const list = await call("GET", "/plant/trees", { key });
  t.is(list.body["total_planted_trees"], Number.MAX_SAFE_INTEGER);
});

test("a full queue is a 503 with Retry-After", async (t) => {
  const { db } = t.context;
  const writer = createRegistrationWriter({ db, clock: systemClock, maximumWaiting: 0 });
  const { call, key } = await startApiOf(t, { writer });

  const { status, headers, body } = await call("POST", "/plant/trees", { key, body: { count: 1 } });

  t.is(status, 503);
  t.is(headers.get("Retry-After"), "1");
  t.deepEqual(body, { error: "too many registrations are waiting, try again" });
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 0);
});
