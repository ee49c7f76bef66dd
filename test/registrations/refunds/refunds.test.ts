import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { sql } from "../../../db/sql.ts";
import { eachKind, idIn, KIND_NAMES, registrationsIn } from "../../api/contract.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";

const test = testWithDatabase();
const forBothKinds = eachKind(test);

forBothKinds("a refund without a count refunds the whole registration", async (t, kind) => {
  const { path, refundPath, total, month, refunded } = KIND_NAMES[kind];
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  await call("POST", path, { key, body: { count: 10 } });
  const created = await call("POST", path, {
    key,
    body: { count: 3, attribution: "a", metadata: { b: 1 }, idempotency_key: "k" },
  });
  const id = idIn(created.body, kind);

  const { status, body } = await call("POST", refundPath, {
    key,
    body: { id, reason: "order cancelled" },
  });

  t.is(status, 200);
  const [registration] = registrationsIn(created.body, kind);
  t.deepEqual(body, {
    [refunded]: 3,
    [total]: 10,
    refund_details: [{ ...registration, refunded: true, refunded_count: 3 }],
    refund_id: `refund-${id}`,
  });
  const list = await call("GET", `${path}?id=${id}`, { key });
  t.like(list.body, { [total]: 10, [month]: 10 });
  t.deepEqual(registrationsIn(list.body, kind), [
    { ...registration, refunded: true, refunded_count: 3 },
  ]);
});

forBothKinds(
  "partial refunds add up, and a refund of more than remains is rejected",
  async (t, kind) => {
    const { path, refundPath, total, refunded } = KIND_NAMES[kind];
    const { call } = await startStandaloneApi(t, t.context);
    const { apiKeyProd: key } = await createTestOrganization(t.context.db);
    const id = idIn((await call("POST", path, { key, body: { count: 10 } })).body, kind);
    const refund = (count?: number) =>
      call("POST", refundPath, { key, body: { id, ...(count === undefined ? {} : { count }) } });

    t.like((await refund(4)).body, { [refunded]: 4, [total]: 6 });
    const tooMany = await refund(7);
    t.is(tooMany.status, 400);
    t.regex(String(tooMany.body["error"]), /^count: /u);
    t.like((await refund(1)).body, { [refunded]: 1, [total]: 5 });
    t.like((await refund()).body, { [refunded]: 5, [total]: 0 });
    t.is((await refund()).status, 400);
    t.is((await call("GET", path, { key })).body[total], 0);
  },
);

test("concurrent partial refunds never exceed the count", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const created = await call("POST", "/plant/trees", { key, body: { count: 10 } });
  const id = idIn(created.body, "tree");

  const responses = await Promise.all(
    Array.from({ length: 20 }, () =>
      call("POST", "/refund/trees", { key, body: { id, count: 3 } }),
    ),
  );

  t.is(responses.filter(({ status }) => status === 200).length, 3);
  t.is(responses.filter(({ status }) => status === 400).length, 17);
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 1);
});

forBothKinds("a registration of another account, mode or kind is not found", async (t, kind) => {
  const { path, refundPath, total } = KIND_NAMES[kind];
  const { call } = await startStandaloneApi(t, t.context);
  const owner = await createTestOrganization(t.context.db);
  const other = await createTestOrganization(t.context.db);
  const created = await call("POST", path, { key: owner.apiKeyProd, body: { count: 3 } });
  const id = idIn(created.body, kind);
  const otherKind = KIND_NAMES[kind === "tree" ? "bottle" : "tree"].refundPath;

  for (const [key, where, wanted] of [
    [other.apiKeyProd, refundPath, id],
    [owner.apiKeyTest, refundPath, id],
    [owner.apiKeyProd, otherKind, id],
    [owner.apiKeyProd, refundPath, crypto.randomUUID()],
  ] as const) {
    const { status, body } = await call("POST", where, { key, body: { id: wanted } });
    t.is(status, 404);
    t.is(typeof body["error"], "string");
  }
  t.is((await call("GET", path, { key: owner.apiKeyProd })).body[total], 3);
});

forBothKinds("a registration of an earlier billing cycle is a 403", async (t, kind) => {
  const { path, refundPath } = KIND_NAMES[kind];
  const clock = createMovableClock("2026-03-14T23:59:59.999Z");
  const { call } = await startStandaloneApi(t, { db: t.context.db, clock });
  const { apiKeyProd: key } = await createTestOrganization(t.context.db, { billingDay: 15 });
  const before = idIn((await call("POST", path, { key, body: { count: 1 } })).body, kind);
  clock.set("2026-03-15T00:00:00.000Z");
  const within = idIn((await call("POST", path, { key, body: { count: 1 } })).body, kind);
  clock.set("2026-04-14T23:59:59.999Z");

  const rejected = await call("POST", refundPath, { key, body: { id: before } });
  const accepted = await call("POST", refundPath, { key, body: { id: within } });

  t.is(rejected.status, 403);
  t.regex(String(rejected.body["error"]), /billing cycle/u);
  t.is(accepted.status, 200);
});

forBothKinds("a registration without a usage record is a 400", async (t, kind) => {
  const { refundPath } = KIND_NAMES[kind];
  const { call } = await startStandaloneApi(t, t.context);
  const { id: accountId, apiKeyProd: key } = await createTestOrganization(t.context.db);
  const id = crypto.randomUUID();
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at)
    VALUES (${id}, ${accountId}, 'live', ${kind}, 1, now())
  `);

  const { status, body } = await call("POST", refundPath, { key, body: { id } });

  t.is(status, 400);
  t.regex(String(body["error"]), /no usage record on file/u);
});

test("a replay after a refund returns the record as it is now", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const body = { count: 2, idempotency_key: "k" };
  const id = idIn((await call("POST", "/plant/trees", { key, body })).body, "tree");
  await call("POST", "/refund/trees", { key, body: { id } });

  const replay = await call("POST", "/plant/trees", { key, body });

  t.is(replay.headers.get("Idempotent-Replayed"), "true");
  t.like(replay.body, { total_planted_trees: 0, tree_details: [{ id, refunded: true }] });
});
