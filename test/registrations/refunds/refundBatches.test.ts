import { systemClock } from "../../../runtime/clock.ts";
import { batchIn, fieldsOf, outcomesOf, rejectionIn } from "../../api/batches.ts";
import { eachKind, idIn, KIND_NAMES, registrationsIn, statusesOf } from "../../api/contract.ts";
import { startStandaloneApi, startApiOf } from "../../api/startStandaloneApi.ts";
import { readEvents } from "../../events/readEvents.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { testWithDatabase } from "../../support/database.ts";

const test = testWithDatabase();

const forBothKinds = eachKind(test);

type Post = Awaited<ReturnType<typeof startApiOf>>["post"];

/** Registers trees in a batch, and returns their ids. */
const plant = async (post: Post, counts: readonly number[]) => {
  const items = counts.map((count) => ({ count }));
  const { results } = batchIn(await post("/plant/trees/batch", { items }));
  return results.map(({ body }) => idIn(body, "tree"));
};

const BATCH = "/refund/trees/batch";

forBothKinds(
  "each refund of a batch has the response that its single request would have had",
  async (t, kind) => {
    const { path, refundPath, total, refunded } = KIND_NAMES[kind];
    const { id: accountId, post } = await startApiOf(t);
    const register = async (count: number) =>
      (await post(path, { count, metadata: { count } })).body;
    const [first, second] = [await register(10), await register(5)];
    const [id, otherId] = [idIn(first, kind), idIn(second, kind)];

    const response = await post(`${refundPath}/batch`, {
      items: [
        { id, count: 4, idempotency_key: "return-1" },
        { id: otherId, reason: "cancelled" },
        { id: id.toUpperCase(), count: 1 },
        { id, count: 9, idempotency_key: "return-1" },
        { id },
      ],
    });

    t.is(response.status, 200);
    const { results } = batchIn(response);
    const [registration] = registrationsIn(first, kind);
    const after = (refundedCount: number) => [
      { ...registration, refunded: true, refunded_count: refundedCount },
    ];
    t.deepEqual(results[0], {
      status: 200,
      idempotent_replayed: false,
      body: { [refunded]: 4, [total]: 11, refund_details: after(4), refund_id: `refund-${id}` },
    });
    t.deepEqual(outcomesOf(results), ["new", "new", "new", "replayed", "new"]);
    t.deepEqual(fieldsOf(results, refunded), [4, 5, 1, 4, 5]);
    t.deepEqual(fieldsOf(results, total), [11, 6, 5, 5, 0]);
    t.deepEqual(results[4]?.body["refund_details"], after(10));
    t.like(await readAccountSums(t.context.db, accountId), {
      registered: 15n,
      refunded: 15n,
      total: 0n,
      usage: 0n,
      facts: 6,
    });
  },
);

test("a batch with refunds that are rejected refunds nothing and names them by their index", async (t) => {
  const { id: accountId, post } = await startApiOf(t);
  const [id = "", otherId = ""] = await plant(post, [5, 5]);
  const taken = { id: otherId, count: 1, idempotency_key: "taken" };
  await post("/refund/trees", taken);
  const items = [
    { id, count: 3 },
    { id: crypto.randomUUID() },
    { id, count: 3 },
    { id, count: 1, idempotency_key: "taken" },
    { id, count: 2 },
  ];

  const whole = await post(BATCH, { items });
  t.is(whole.status, 400);
  const foreign = "idempotency_key: belongs to the refund of another registration";
  t.deepEqual(rejectionIn(whole).errors, [
    { index: 1, status: 404, error: "failed to find tree registration" },
    { index: 2, status: 400, error: "count: only 2 can still be refunded" },
    { index: 3, status: 400, error: foreign },
  ]);
  t.like(await readAccountSums(t.context.db, accountId), { refunded: 1n, total: 9n, usage: 9n });

  const parts = batchIn(await post(`${BATCH}?atomic=false`, { items }));
  t.deepEqual(statusesOf(parts.results), [200, 404, 400, 400, 200]);
  t.like(await readAccountSums(t.context.db, accountId), { refunded: 6n, total: 4n, usage: 4n });
});

test("a thousand refunds are sent again without refunding more, and their events are in order", async (t) => {
  const { db } = t.context;
  const { id: accountId, post } = await startApiOf(t);
  const ids = await plant(post, Array(1000).fill(3));
  const items = ids.map((id, index) => ({ id, count: 2, idempotency_key: `return-${index}` }));
  const send = async () => batchIn(await post(BATCH, { items }));

  const first = await send();
  const again = await send();

  t.is(first.succeeded, 1000);
  t.is(first.results.at(-1)?.body["total_planted_trees"], 1000);
  t.true(again.results.every(({ idempotent_replayed: replayed }) => replayed));
  t.like(await readAccountSums(db, accountId), { refunded: 2000n, total: 1000n, usage: 1000n });
  const events = await readEvents(
    { db, clock: systemClock },
    { accountId, mode: "live" },
    { types: ["registration.refunded"], limit: 1000 },
  );
  const refunded = events.map(({ data }) => "registration_id" in data && data.registration_id);
  t.deepEqual(refunded, ids);
});

test("equal batches, single refunds and registrations at the same time refund each unit once", async (t) => {
  const api = await startApiOf(t);
  const { id: accountId, key } = api;
  const ids = await plant(api.post, Array(50).fill(4));
  const items = ids.map((id, index) => ({ id, count: 1, idempotency_key: `return-${index}` }));

  const responses = await Promise.all(
    [api, await startStandaloneApi(t, t.context)].flatMap(({ call }) =>
      [
        [BATCH, { items }] as const,
        [BATCH, { items: items.toReversed() }] as const,
        ...ids.slice(0, 10).map((id) => ["/refund/trees", { id, count: 1 }] as const),
        ...ids.slice(0, 10).map(() => ["/plant/trees", { count: 1 }] as const),
      ].map(([path, body]) => call("POST", path, { key, body })),
    ),
  );

  t.deepEqual([...new Set(statusesOf(responses))], [200]);
  const refunded = 50 + 20;
  t.like(await readAccountSums(t.context.db, accountId), {
    refunded: BigInt(refunded),
    total: BigInt(200 + 20 - refunded),
    usage: BigInt(200 + 20 - refunded),
  });
});
