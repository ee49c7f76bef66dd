import { createMovableClock } from "../../support/movableClock.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestStore, rowsIn, startStoreApiOf } from "../startStoreApi.ts";

const test = testWithDatabase();

const ORDERS = [
  {
    customer_name: "Ann Lee",
    customer_email: "Ann@Example.com",
    customer_id: 7701,
    order_id: "#1001",
  },
  {
    customer_name: "ANNA Möller",
    customer_email: "anna@example.com",
    customer_id: "7702",
    order_id: "1002",
  },
  { customer_name: "100% Bob_Smith\\", customer_email: "bob@example.com", order_id: "Store1001" },
  { customer_id: "gid://shopify/Customer/7704", order_id: "#1001-A" },
  {},
];

test("each filter and alias finds the matching records, and empty filters are ignored", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  const other = await createTestStore(t.context.db);
  // One tree more for each order, so that the count names the order.
  for (const [index, order] of ORDERS.entries()) {
    t.is((await post("/app/api/plant", store.test, { trees: index + 1, ...order })).status, 200);
  }
  const find = async (query: string, headers = store.test): Promise<readonly unknown[]> => {
    const { status, body } = await get(`/app/api/plant?${query}`, headers);
    t.is(status, 200, query);
    return rowsIn(body, "trees")
      .map(({ count }) => Number(count))
      .toSorted((one, two) => one - two);
  };

  for (const query of ["customer=ann", "email=ann@example.com", "order_id=1001"]) {
    for (const headers of [store.live, other.live, other.test]) {
      t.deepEqual(await find(query, headers), [], query);
    }
  }
  for (const [query, found] of [
    ["customer_name=ann", [1, 2]],
    ["customer_name=%20LEE%20", [1]],
    ["customer_name=M%C3%96LL", [2]],
    ["customer_name=%25", [3]],
    ["customer_name=_", [3]],
    ["customer_name=%5C", [3]],
    ["customer_name=a", [1, 2]],
    ["customer_email=ANN@example.COM", [1]],
    ["email=anna@example.com", [2]],
    ["customer_email=ann@example.com&email=ann@EXAMPLE.com", [1]],
    ["customer_email=ann@example.com&email=anna@example.com", []],
    ["customer_email=ann", []],
    ["customer_id=7701", [1]],
    ["customer_id=7704", [4]],
    ["customer_id=gid://shopify/Customer/7702", [2]],
    ["customer=ann", [1, 2]],
    ["customer=BOB@example.com", [3]],
    ["customer=7704", [4]],
    ["customer=gid://shopify/Customer/7704", [4]],
    ["order_id=1001", [1]],
    ["order_id=%231001", [1]],
    ["order_id=%231002", [2]],
    ["order_id=Store1001", [3]],
    ["customer=ann&order_id=1002", [2]],
    [
      "customer_name=&customer_email=&email=&customer_id=&customer=&order_id=&start_date=&end_date=&limit=&after_created_at=&after_created_at=",
      [1, 2, 3, 4, 5],
    ],
  ] as const) {
    t.deepEqual(await find(query), found, query);
  }
});

test("a part of a Greek name is found in any case, and the longest name, address and id, which has a case", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  const longest = {
    customer_name: "n".repeat(1000),
    customer_email: `${"e".repeat(988)}@example.com`,
    customer_id: "i".repeat(1000),
  };
  for (const customer of [
    { customer_name: "ΠΑΠΑΣΤΑΜΟΣ" },
    // A small sigma depends on its place.
    { customer_name: "Παπασταμος" },
    longest,
  ]) {
    await post("/app/api/plant", store.test, { trees: 1, ...customer });
  }
  const count = async (customer: string): Promise<unknown> => {
    const query = new URLSearchParams({ customer }).toString();
    return (await get(`/app/api/plant?${query}`, store.test)).body["count"];
  };

  for (const part of ["ΠΑΠΑΣ", "παπας", "παπασ", "ΣΤΑΜΟΣ", "σταμοσ"]) {
    t.is(await count(part), 2, part);
  }
  for (const value of [...Object.values(longest), longest.customer_email.toUpperCase()]) {
    t.is(await count(value), 1);
  }
  t.is(await count(longest.customer_id.toUpperCase()), 0);
  t.is((await get(`/app/api/plant?customer=${"e".repeat(1001)}`, store.test)).status, 400);
});

test("a record shows what was given, and empty texts for the rest", async (t) => {
  const clock = createMovableClock("2026-03-10T09:08:07.006Z");
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 }, clock });
  await post("/app/api/plastic", store.live, {
    bottles: 2,
    customer_name: " Ann Lee ",
    customer_email: "Ann@Example.com",
    customer_id: 9_007_199_254_740_991,
    order_id: 1001,
    notes: " points ",
  });
  await post("/app/api/plastic", store.live, { bottles: 1, customer_name: "" });

  const { body } = await get("/app/api/plastic", store.live);

  const [bare, full] = rowsIn(body, "plastics").map(({ id, ...record }) => {
    t.is(typeof id, "string");
    return record;
  });
  t.deepEqual(full, {
    count: 2,
    refunded_count: 0,
    customer_name: " Ann Lee ",
    customer_email: "Ann@Example.com",
    customer_id: "9007199254740991",
    order_id: "1001",
    notes: " points ",
    created_at: "2026-03-10T09:08:07.006000Z",
  });
  const empty = { customer_name: "", customer_email: "", customer_id: "", order_id: "", notes: "" };
  const created_at = "2026-03-10T09:08:07.006001Z";
  t.deepEqual(bare, { ...empty, count: 1, refunded_count: 0, created_at });
  t.is((await get("/app/api/plant", store.live)).body["count"], 0);
});

test("malformed and repeated parameters are rejected by name", async (t) => {
  const { get, store } = await startStoreApiOf(t);
  for (const [query, message] of [
    ["limit=00", /limit: must be an integer of at least 1/u],
    ["limit=-1", /limit/u],
    ["limit=1.5", /limit/u],
    ["limit=1&limit=2", /^limit: must be given at most once$/u],
    ["customer_id=1&customer_id=2", /^customer_id: must be given at most once$/u],
    ["start_date=2026-02-30", /start_date: must be a calendar date/u],
    ["end_date=0000-01-01", /end_date/u],
    ["after_created_at=2025-02-29T00:00:00Z", /after_created_at/u],
    ["after_created_at=2026-01-01T00:00:00Z_7", /after_created_at/u],
    ["after_created_at=9999-12-31T23:59:59-23:00", /after_created_at/u],
    ["customer_name=%00", /customer_name/u],
    ["customer_name=%", /percent-encoded/u],
  ] as const) {
    const refused = await get(`/app/api/plastic?${query}`, store.test);
    t.like(refused, { status: 400, body: { code: "INVALID_PARAMETER" } }, query);
    t.regex(String(refused.body["error"]), message);
  }
});
