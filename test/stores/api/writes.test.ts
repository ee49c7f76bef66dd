import { systemClock } from "../../../runtime/clock.ts";
import { createStoreWriter } from "../../../modules/stores/createStoreWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { createTestStore, startStoreApiOf } from "../startStoreApi.ts";
import { readStoreState } from "../storeState.ts";

const test = testWithDatabase();

test("a planting is confirmed, listed, counted and paid for", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });

  const planted = await post("/app/api/plant", store.live, {
    trees: 3,
    customer_name: "Ann Lee",
    order_id: "#1001",
    notes: "loyalty",
    customer_email: "Ann@Example.com",
    customer_id: 7701,
  });

  t.is(planted.status, 200);
  t.deepEqual(planted.body, {
    status: "success",
    trees_planted: 3,
    customer_name: "Ann Lee",
    order_id: "#1001",
  });
  const { body: list } = await get("/app/api/plant", store.live);
  t.like(list, { count: 1, has_more: false, next_cursor: "" });
  const { body: balance } = await get("/app/api/balance", store.live);
  t.like(balance, { balance_cents: 850 });
  const { body: stats } = await get("/app/api/impact/stats", store.live);
  t.deepEqual(stats, {
    trees: 3,
    plastic_bottles: 0,
    donations: 0,
    co2_kg: 600,
    customer_scoped: false,
  });
});

test("invalid fields are rejected by name, and nothing is recorded", async (t) => {
  const { db } = t.context;
  const { post, store } = await startStoreApiOf(t);

  for (const [path, body, field] of [
    ["plant", {}, "trees: required"],
    ["plant", { trees: null }, "trees: required"],
    ["plant", { trees: 0 }, "trees: must be an integer"],
    ["plant", { trees: -1 }, "trees: must be an integer"],
    ["plant", { trees: 1.5 }, "trees: must be an integer"],
    ["plant", { trees: "1" }, "trees: must be an integer"],
    ["plant", { trees: 2 ** 53 }, `trees: must be at most ${Number.MAX_SAFE_INTEGER}`],
    ["plant", { trees: 1, order_id: 2 ** 53 }, "order_id: must be a string"],
    ["plant", { trees: 1, order_id: true }, "order_id: must be a string"],
    ["plant", { trees: 1, order_id: "x".repeat(1001) }, "order_id: must be at most"],
    ["plant", { trees: 1, customer_id: 1.5 }, "customer_id"],
    ["plant", { trees: 1, customer_id: {} }, "customer_id"],
    ["plant", { trees: 1, customer_name: "\u0000" }, "customer_name: must be well-formed"],
    ["plant", { trees: 1, notes: ["x"] }, "notes: must be a string"],
    ...["idempotency_key", "idempotencyKey", "Idempotency-Key"].flatMap((name) =>
      [
        ["plant", { trees: 1 }] as const,
        ["plastic", { bottles: 1 }] as const,
        ["charity/donate", { charity_id: "53-0196605", amount: 1 }] as const,
        ["refund", { type: "tree", quantity: 1 }] as const,
      ].map(
        ([write, fields]) =>
          [
            write,
            { ...fields, [name]: "x" },
            `${name}: must be given as the header Idempotency-Key`,
          ] as const,
      ),
    ),
    [
      "plant",
      { trees: 1, email: "ann@example.com", customer_email: "bob@example.com" },
      "customer_email: customer_email, email are aliases; their values must match",
    ],
    [
      "charity/donate",
      { charity_id: "53-0196605", amount: 1, currency: "EUR" },
      "currency: must be USD",
    ],
    ["plant", [], "the body must be a JSON object"],
    ["plant", "[1", "the body is not a valid JSON object"],
    ["plastic", {}, "bottles: required"],
    ["plastic", { bottles: 0 }, "bottles: must be an integer of at least 1"],
    ["plastic", { bottles: -1 }, "bottles: must be an integer of at least 1"],
  ] as const) {
    const { status, body: response } = await post(`/app/api/${path}`, store.test, body);
    t.is(status, 400);
    t.is(response["code"], "INVALID_PARAMETER");
    t.true(String(response["error"]).startsWith(field), String(response["error"]));
  }
  t.like(await readStoreState(db, store.id), { registrations: 0, totals: 0 });
});

test("the balance decides about any number of units", async (t) => {
  const { db } = t.context;
  const { post, get, store } = await startStoreApiOf(t, { store: { balanceCents: 500 } });
  const dear = await createTestStore(db, { balanceCents: 500, treePriceCents: MAXIMUM_CENTS });

  for (const [headers, trees] of [
    [store.live, 11],
    [store.live, 999_999_999],
    [store.live, Number.MAX_SAFE_INTEGER],
    [dear.live, Number.MAX_SAFE_INTEGER],
  ] as const) {
    const { status, body } = await post("/app/api/plant", headers, { trees });
    t.is(status, 402, String(trees));
    t.is(body["code"], "INSUFFICIENT_BUDGET");
    t.regex(
      String(body["error"]),
      /^top-up balance exhausted: \$[1-9][\d,]*\.\d\d needed, \$5\.00 left$/u,
    );
  }
  for (const trees of [0, -1, 1.5, "3", 2 ** 53, null]) {
    t.is((await post("/app/api/plant", store.live, { trees })).status, 400, String(trees));
  }
  t.is((await post("/app/api/plant", store.live, '{"trees": 1e400}')).status, 400);
  t.is((await post("/app/api/plant", store.live, { trees: 10 })).status, 200);

  const many = await post("/app/api/plant", store.test, { trees: 3_000_000_000 });
  t.is(many.status, 200, many.text);
  t.is(many.body["trees_planted"], 3_000_000_000);
  t.is((await get("/app/api/impact/stats", store.test)).body["trees"], 3_000_000_000);
  t.is((await get("/app/api/plant", store.test)).status, 200);
  t.is((await get("/app/api/evidence", store.test)).status, 200);
});

for (const [path, field] of [
  ["/app/api/plant", "trees"],
  ["/app/api/plastic", "bottles"],
] as const) {
  test(`a total of ${field} beyond the safe integers is rejected by the field's name`, async (t) => {
    const { post, store } = await startStoreApiOf(t);
    await post(path, store.test, { [field]: Number.MAX_SAFE_INTEGER });

    const responses = await Promise.all([
      post("/app/api/plant", store.test, { trees: 1 }),
      post("/app/api/plastic", store.test, { bottles: 1 }),
    ]);

    const refused = responses
      .filter(({ status }) => status === 400)
      .map(({ body }) => body["error"]);
    t.deepEqual(refused, [
      `${field}: would increase the account's total to more than 9007199254740991`,
    ]);
  });
}

test("a write that finds the queue full is OVERLOADED, with Retry-After", async (t) => {
  const { db } = t.context;
  const storeWriter = createStoreWriter({ db, clock: systemClock, maximumWaiting: 0 });
  const { post, store } = await startStoreApiOf(t, { storeWriter });

  const { status, body, headers } = await post("/app/api/plant", store.test, { trees: 1 });

  t.is(status, 503);
  t.is(body["code"], "OVERLOADED");
  t.is(headers.get("Retry-After"), "1");
});

test("bottles work the same under their own names and do not count towards co2_kg", async (t) => {
  const { db } = t.context;
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 100 } });

  const rescued = await post("/app/api/plastic", store.live, { bottles: 7 });

  t.deepEqual(rescued.body, {
    status: "success",
    bottles_rescued: 7,
    customer_name: "",
    order_id: "",
  });
  t.is((await readStoreState(db, store.id)).balance, 30);
  t.like((await get("/app/api/impact/stats", store.live)).body, {
    trees: 0,
    plastic_bottles: 7,
    co2_kg: 0,
  });
});

test("totals cover the store or one customer, without refunded units", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  await post("/app/api/plant", store.test, { trees: 3, customer_name: "Ann" });
  await post("/app/api/plant", store.test, { trees: 5, customer_email: "bob@example.com" });
  await post("/app/api/plastic", store.test, { bottles: 2, customer_name: "Ann" });
  await post("/app/api/refund", store.test, { type: "tree", quantity: 1, customer_name: "Ann" });

  const read = async (query: string) =>
    (await get(`/app/api/impact/stats${query}`, store.test)).body;
  t.like(await read(""), { trees: 7, plastic_bottles: 2, co2_kg: 1400, customer_scoped: false });
  t.like(await read("?customer_name=an"), { trees: 2, plastic_bottles: 2, customer_scoped: true });
  t.like(await read("?customer=BOB@example.com"), { trees: 5, plastic_bottles: 0, co2_kg: 1000 });
  t.like(await read("?customer_name="), { trees: 7, customer_scoped: false });
  t.like(await read("?customer_id=nobody"), { trees: 0, donations: 0, customer_scoped: true });
  t.like(await read("?order_id=1"), { trees: 7, customer_scoped: false });
});
