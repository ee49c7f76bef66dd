import type { ExecutionContext } from "ava";
import { createMovableClock } from "../../support/movableClock.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestStore, rowsIn, startStoreApi, startStoreApiOf } from "../startStoreApi.ts";
import type { StoreApi, TestStore } from "../startStoreApi.ts";

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

/** Plants one tree more for each order, so that the count names the order. */
const plantOrders = async (
  t: ExecutionContext,
  { post }: StoreApi,
  store: TestStore,
): Promise<void> => {
  for (const [index, order] of ORDERS.entries()) {
    t.is((await post("/app/api/plant", store.test, { trees: index + 1, ...order })).status, 200);
  }
};

test("each filter and alias finds the matching records, and empty filters are ignored", async (t) => {
  const api = await startStoreApi(t, t.context);
  const store = await createTestStore(t.context.db);
  await plantOrders(t, api, store);
  const find = async (query: string): Promise<readonly unknown[]> => {
    const { status, body } = await api.get(`/app/api/plant?${query}`, store.test);
    t.is(status, 200, query);
    return rowsIn(body, "trees")
      .map(({ count }) => Number(count))
      .toSorted((one, two) => one - two);
  };

  const other = await createTestStore(t.context.db);
  for (const query of [
    "customer=ann",
    "email=ann@example.com",
    "customer_id=7701",
    "order_id=1001",
  ]) {
    for (const headers of [store.live, other.live, other.test]) {
      t.is((await api.get(`/app/api/plant?${query}`, headers)).body["count"], 0, query);
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

test("a part of a Greek name is found in any case, although a small sigma depends on its place", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  await post("/app/api/plant", store.test, { trees: 1, customer_name: "ΠΑΠΑΣΤΑΜΟΣ" });
  await post("/app/api/plant", store.test, { trees: 1, customer_name: "Παπασταμος" });

  for (const part of ["ΠΑΠΑΣ", "παπας", "παπασ", "ΣΤΑΜΟΣ", "σταμοσ"]) {
    const { body } = await get(
      `/app/api/plant?customer_name=${encodeURIComponent(part)}`,
      store.test,
    );
    t.is(body["count"], 2, part);
  }
});

test("the parameter customer finds the longest name, email address and id; ids are case-sensitive", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  const longest = {
    customer_name: "n".repeat(1000),
    customer_email: `${"e".repeat(988)}@example.com`,
    customer_id: "i".repeat(1000),
  };
  await post("/app/api/plant", store.test, { trees: 1, ...longest });
  const found = async (customer: string): Promise<unknown> =>
    (await get(`/app/api/plant?customer=${customer}`, store.test)).body["count"];

  for (const value of Object.values(longest)) {
    t.is(await found(value), 1);
  }
  t.is(await found(longest.customer_email.toUpperCase()), 1);
  t.is(await found(longest.customer_id.toUpperCase()), 0);
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
  t.deepEqual(bare, {
    count: 1,
    refunded_count: 0,
    customer_name: "",
    customer_email: "",
    customer_id: "",
    order_id: "",
    notes: "",
    created_at: "2026-03-10T09:08:07.006001Z",
  });
  t.is((await get("/app/api/plant", store.live)).body["count"], 0);
});

test("a timestamp is a cursor too: the page starts with the first older record, to the microsecond", async (t) => {
  const clock = createMovableClock("2026-03-10T09:00:00.000Z");
  const { get, post, store } = await startStoreApiOf(t, { clock });
  for (const [index, time] of ["09:00:00.000", "09:00:00.001", "09:00:00.002"].entries()) {
    clock.set(`2026-03-10T${time}Z`);
    await post("/app/api/plant", store.test, { trees: index + 1 });
  }
  const after = async (time: string) =>
    rowsIn(
      (await get(`/app/api/plant?after_created_at=${encodeURIComponent(time)}`, store.test)).body,
      "trees",
    ).map(({ count }) => count);

  t.deepEqual(await after("2026-03-10T09:00:00.002Z"), [2, 1]);
  t.deepEqual(await after("2026-03-10T09:00:00.001001Z"), [2, 1]);
  t.deepEqual(await after("2026-03-10T09:00:00.001Z"), [1]);
  t.deepEqual(await after("2026-03-10T11:00:00.001+02:00"), [1]);
  t.deepEqual(await after("2026-03-10T09:00:00Z"), []);
  t.deepEqual(await after("2026-03-10t09:00:00.001000000000z"), [1]);
  t.deepEqual(await after("2026-03-10 09:00:00.001Z"), [1]);
  const unencoded = "after_created_at=2026-03-10T11:00:00.001+02:00";
  t.is((await get(`/app/api/plant?${unencoded}`, store.test)).body["count"], 1);
});

test("malformed and repeated parameters are rejected by name", async (t) => {
  const { get, store } = await startStoreApiOf(t);
  const refused: Readonly<Record<string, RegExp>> = {
    "limit=0": /limit/u,
    "limit=00": /limit: must be an integer of at least 1/u,
    "limit=-1": /limit/u,
    "limit=1.5": /limit/u,
    "limit=ten": /limit/u,
    "limit=1&limit=2": /^limit: must be given at most once$/u,
    "customer_id=1&customer_id=2": /^customer_id: must be given at most once$/u,
    "start_date=2026-02-30": /start_date: must be a calendar date/u,
    "end_date=10.03.2026": /end_date/u,
    "end_date=0000-01-01": /end_date/u,
    "after_created_at=yesterday": /after_created_at/u,
    "after_created_at=2026-13-01T00:00:00Z": /after_created_at/u,
    "after_created_at=2025-02-31T00:00:00Z": /after_created_at/u,
    "after_created_at=2025-02-29T00:00:00Z": /after_created_at/u,
    "after_created_at=2025-04-31T00:00:00Z_01a20258-5606-713f-b6e6-42b446b67e84":
      /after_created_at/u,
    "after_created_at=2025-02-28T24:00:00Z": /after_created_at/u,
    "after_created_at=0000-01-01T00:00:00Z": /after_created_at/u,
    "after_created_at=2026-01-01T00:00:00Z_7": /after_created_at/u,
    "after_created_at=9999-12-31T23:59:59-23:00": /after_created_at/u,
    "customer_name=%00": /customer_name/u,
    "customer_name=%": /percent-encoded/u,
  };

  for (const path of ["/app/api/plant", "/app/api/plastic"]) {
    for (const [query, message] of Object.entries(refused)) {
      const { status, body } = await get(`${path}?${query}`, store.test);
      t.is(status, 400, query);
      t.is(body["code"], "INVALID_PARAMETER");
      t.regex(String(body["error"]), message);
    }
  }
});
