import { updateAccount } from "../../../db/accounts/accounts.ts";
import { systemClock } from "../../../domain/clock.ts";
import { createStoreRegistrationWriter } from "../../../services/stores/records/createStoreRegistrationWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestStore, rowsIn, startStoreApi } from "../startStoreApi.ts";
import { insertTestCharity, readStoreState } from "../storeState.ts";

const test = testWithDatabase();

const EIN = "530196605";
test.beforeEach((t) => insertTestCharity(t.context.db, EIN));

test("a planting is confirmed, listed, counted and paid for", async (t) => {
  const { get, post } = await startStoreApi(t, t.context);
  const store = await createTestStore(t.context.db, { balanceCents: 1000 });

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
  const { post } = await startStoreApi(t, { db });
  const store = await createTestStore(db);

  for (const [path, body, field] of [
    ["plant", {}, "trees: required"],
    ["plant", { trees: null }, "trees: must be an integer"],
    ["plant", { trees: 0 }, "trees: must be an integer"],
    ["plant", { trees: -1 }, "trees: must be an integer"],
    ["plant", { trees: 1.5 }, "trees: must be an integer"],
    ["plant", { trees: "1" }, "trees: must be an integer"],
    ["plant", { trees: 2 ** 53 }, `trees: must be at most ${Number.MAX_SAFE_INTEGER}`],
    ["plant", { trees: 1, bottles: 1 }, "bottles: unknown field"],
    ["plant", { trees: 1, order_id: 1001 }, "order_id: must be a string"],
    ["plant", { trees: 1, order_id: "x".repeat(256) }, "order_id: must be at most"],
    ["plant", { trees: 1, customer_id: 1.5 }, "customer_id"],
    ["plant", { trees: 1, customer_id: {} }, "customer_id"],
    ["plant", { trees: 1, customer_name: "\u0000" }, "customer_name: must be well-formed"],
    ["plant", { trees: 1, notes: ["x"] }, "notes: must be a string"],
    ["plant", { trees: 1, idempotency_key: "x" }, "idempotency_key: unknown field"],
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

test("a planting that the database rejects fails alone; the rest of its batch is recorded", async (t) => {
  const { db } = t.context;
  const { post } = await startStoreApi(t, { db });
  const store = await createTestStore(db);
  const other = await createTestStore(db);
  await post("/app/api/plant", store.test, { trees: Number.MAX_SAFE_INTEGER - 1 });

  const responses = await Promise.all([
    post("/app/api/plant", other.test, { trees: 1 }),
    post("/app/api/plant", store.test, { trees: 2 }),
    post("/app/api/plant", other.test, { trees: 1 }),
    post("/app/api/plant", store.test, { trees: 1 }),
  ]);

  t.deepEqual(
    responses.map(({ status }) => status),
    [200, 400, 200, 200],
  );
  t.like(await readStoreState(db, other.id), { remaining: 2, totals: 2 });
  t.is((await readStoreState(db, store.id)).remaining, Number.MAX_SAFE_INTEGER);
});

for (const [path, field] of [
  ["/app/api/plant", "trees"],
  ["/app/api/plastic", "bottles"],
] as const) {
  test(`a total of ${field} beyond the safe integers is rejected by the field's name`, async (t) => {
    const { post } = await startStoreApi(t, t.context);
    const store = await createTestStore(t.context.db);
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
  const storeWriter = createStoreRegistrationWriter({ db, clock: systemClock, maximumWaiting: 0 });
  const { post } = await startStoreApi(t, { db, storeWriter });
  const store = await createTestStore(db);

  const { status, body, headers } = await post("/app/api/plant", store.test, { trees: 1 });

  t.is(status, 503);
  t.is(body["code"], "OVERLOADED");
  t.is(headers.get("Retry-After"), "1");
});

test("bottles work the same under their own names and do not count towards co2_kg", async (t) => {
  const { db } = t.context;
  const { get, post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 100 });

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
  const { get, post } = await startStoreApi(t, t.context);
  const store = await createTestStore(t.context.db);
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
  t.is((await get("/app/api/impact/stats?order_id=1", store.test)).status, 400);
});

const DONATE = "/app/api/charity/donate";

test("a donation is recorded to the cent under each alias of its amount", async (t) => {
  const { db } = t.context;
  const { get, post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 10_000 });

  for (const [fields, amount] of [
    [{ amount_dollars: 1.15 }, 1.15],
    [{ amount: 0.29 }, 0.29],
    [{ donation_amount: 19.99 }, 19.99],
    [{ amount_dollars: 4.35, amount: 4.35, donation_amount: 4.35 }, 4.35],
    [{ amount: 5 }, 5],
    [{ amount: 0.1 + 0.2, amount_dollars: 0.3 }, 0.3],
  ] as const) {
    const { status, body } = await post(DONATE, store.live, { charity_id: EIN, ...fields });
    t.is(status, 200);
    t.deepEqual(body, { status: "success", charity_id: EIN, amount, mode: "PROD" });
  }
  t.is((await get("/app/api/impact/stats", store.live)).body["donations"], 31.08);
  t.is((await readStoreState(db, store.id)).balance, 10_000 - 3108);
});

test("an amount that is missing, has fractions of a cent or differs between its aliases is rejected", async (t) => {
  const { db } = t.context;
  const { post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 10_000 });

  for (const fields of [
    {},
    { amount_dollars: 0 },
    { amount_dollars: -5 },
    { amount_dollars: 0.001 },
    { amount_dollars: 1.005 },
    { amount_dollars: 0.30001 },
    { amount_dollars: "5" },
    { amount_dollars: null },
    { amount_dollars: 1e21 },
    { amount_dollars: 1_000_000_000 },
    { amount_dollars: 5, amount: 6 },
    { amount: 5, donation_amount: 5.01 },
  ]) {
    const { status, body } = await post(DONATE, store.live, { charity_id: EIN, ...fields });
    t.is(status, 400, JSON.stringify(fields));
    t.is(body["code"], "INVALID_PARAMETER");
    t.regex(String(body["error"]), /amount/u);
  }
  t.is((await readStoreState(db, store.id)).balance, 10_000);
});

test("a charity is found by its EIN, with or without the dash, or its id; an unknown one is rejected", async (t) => {
  const { db } = t.context;
  const { post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 10_000 });

  for (const id of [EIN, "53-0196605", `irs_${EIN}`]) {
    const { status, body } = await post(DONATE, store.live, { charity_id: id, amount: 1 });
    t.is(status, 200);
    t.is(body["charity_id"], id);
  }
  for (const id of ["999999999", "irs_1", "nobody", "", " ", 530_196_605, null]) {
    const { status, body } = await post(DONATE, store.live, { charity_id: id, amount: 1 });
    t.is(status, 400);
    t.is(body["code"], "INVALID_PARAMETER");
    t.regex(String(body["error"]), /charity_id/u);
  }
  t.is((await readStoreState(db, store.id)).balance, 9700);
});

test("customer filters find donations", async (t) => {
  const { db } = t.context;
  const { get, post } = await startStoreApi(t, { db });
  const store = await createTestStore(db);
  const customer = { customer_name: "Ann Lee", customer_email: "ann@example.com", customer_id: 7 };
  await post(DONATE, store.test, { charity_id: EIN, amount: 2, order_id: "#1", ...customer });
  await post(DONATE, store.test, { charity_id: EIN, amount: 3 });

  for (const query of [
    "customer_name=lee",
    "email=ANN@example.com",
    "customer_id=7",
    "customer=7",
  ]) {
    t.deepEqual((await get(`/app/api/impact/stats?${query}`, store.test)).body, {
      trees: 0,
      plastic_bottles: 0,
      donations: 2,
      co2_kg: 0,
      customer_scoped: true,
    });
  }
});

test("if the charity's provider fails nothing is recorded, and an earlier donation is still replayed", async (t) => {
  const { db } = t.context;
  const { post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 1000 });
  const headers = { ...store.live, "Idempotency-Key": "key" };
  const donation = { charity_id: EIN, amount: 1 };
  const first = await post(DONATE, headers, donation);
  // A provider without an API key fails every lookup.
  await updateAccount(db, store.id, { charityProvider: "everyorg" });

  const failed = await post(DONATE, store.live, donation);
  t.is(failed.status, 500);
  t.is(failed.body["code"], "INTERNAL_ERROR");
  t.is((await post(DONATE, headers, donation)).text, first.text);
  t.is((await readStoreState(db, store.id)).balance, 900);
});

const DONATIONS = "/app/api/charity/donations";

test("donations are listed newest first by page, with their customer, order and refund", async (t) => {
  const { db } = t.context;
  const { get, post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 10_000 });
  for (const [amount, customer_name] of [
    [1.5, "Ann Lee"],
    [2, "Bob"],
    [3, "Anna"],
  ] as const) {
    const given = { charity_id: EIN, amount, customer_name, order_id: "#1001" };
    t.is((await post(DONATE, store.live, given)).status, 200);
  }
  t.is((await post(DONATE, store.test, { charity_id: EIN, amount: 9 })).status, 200);
  const refund = { type: "donation", quantity: 1, customer_name: "Anna" };
  t.is((await post("/app/api/refund", store.live, refund)).status, 200);

  const first = await get(`${DONATIONS}?limit=2`, store.live);
  t.is(first.status, 200);
  t.deepEqual([first.body["count"], first.body["has_more"]], [2, true]);
  const second = await get(
    `${DONATIONS}?limit=2&after_created_at=${String(first.body["next_cursor"])}`,
    store.live,
  );
  t.deepEqual([second.body["has_more"], second.body["next_cursor"]], [false, ""]);
  const listed = [...rowsIn(first.body, "donations"), ...rowsIn(second.body, "donations")];
  t.deepEqual(
    listed.map(({ amount, customer_name, refunded }) => [amount, customer_name, refunded]),
    [
      [3, "Anna", true],
      [2, "Bob", false],
      [1.5, "Ann Lee", false],
    ],
  );
  const { id, created_at, charity_name, ...ann } = listed[2] ?? {};
  t.true([id, created_at, charity_name].every((value) => typeof value === "string"));
  t.deepEqual(ann, {
    amount: 1.5,
    amount_cents: 150,
    currency: "USD",
    ein: "53-0196605",
    nonprofit_id: "irs_530196605",
    customer_name: "Ann Lee",
    customer_email: "",
    customer_id: "",
    order_id: "#1001",
    refunded: false,
  });

  const count = async (query: string, headers: Readonly<Record<string, string>>) =>
    (await get(`${DONATIONS}?${query}`, headers)).body["count"];
  t.is(await count("customer=ann&order_id=1001", store.live), 2);
  t.is(await count("end_date=2020-01-01", store.live), 0);
  t.is(await count(`after_created_at=${String(created_at)}`, store.live), 0);
  t.is(await count("_=1", store.test), 1);
  t.is((await get(`${DONATIONS}?customer_nam=a`, store.live)).status, 400);
  const other = await createTestStore(db);
  t.is(await count("", other.live), 0);
});

test("a store searches charities with its own key and donates to one that it found", async (t) => {
  const { db } = t.context;
  const { get, post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 10_000 });

  const { status, body } = await get("/app/api/charity/search?ein=53-0196605", store.live);
  t.is(status, 200);
  t.deepEqual([body["total_items"], body["total_pages"]], [1, 1]);
  const [charity] = rowsIn(body, "charities");
  const donation = { charity_id: charity?.["nonprofit_id"], amount: 1 };
  t.is((await post(DONATE, store.live, donation)).status, 200);

  const none = await get("/app/api/charity/search?name=%E8%B5%A4", store.test);
  t.deepEqual(none.body, { total_items: 0, total_pages: 0, charities: [] });
  t.is((await get("/app/api/charity/search?page_size=21", store.test)).status, 400);
  t.is((await get("/app/api/charity/search", {})).body["code"], "UNAUTHORIZED");
});

test("the twenty-first search of a key within a second is a 429 with its code", async (t) => {
  const { db } = t.context;
  // A minute, so that the machine's speed does not matter.
  const { get } = await startStoreApi(t, { db, rateWindowMs: 60_000 });
  const store = await createTestStore(db);
  const statuses: number[] = [];
  for (let request = 0; request < 21; request += 1) {
    const { status, body, headers } = await get("/app/api/charity/search?name=zzzz", store.test);
    statuses.push(status);
    if (status === 429) {
      t.deepEqual(body, { error: "rate limit exceeded", code: "OVERLOADED" });
      t.is(headers.get("Retry-After"), "1");
    }
  }
  t.deepEqual(statuses, [...Array.from({ length: 20 }, () => 200), 429]);
  t.is((await get(DONATIONS, store.test)).status, 200);
});

test("the twenty-first donation of a key within a second is a 429 that records nothing", async (t) => {
  const { post } = await startStoreApi(t, { ...t.context, rateWindowMs: 60_000 });
  const store = await createTestStore(t.context.db, { balanceCents: 1000 });
  const donate = (headers: Readonly<Record<string, string>>) =>
    post(DONATE, headers, { charity_id: EIN, amount: 0.1 });

  const responses = await Promise.all(Array.from({ length: 25 }, () => donate(store.live)));

  const limited = responses.filter(({ status }) => status === 429);
  t.is(limited.length, 5);
  t.deepEqual(limited[0]?.body, { error: "rate limit exceeded", code: "OVERLOADED" });
  t.is((await readStoreState(t.context.db, store.id)).balance, 800);
  t.is((await donate(store.test)).status, 200, "each key has its own limit");
});
