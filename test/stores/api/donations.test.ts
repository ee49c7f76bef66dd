import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { rowsIn, startStoreApiOf } from "../startStoreApi.ts";
import { EIN } from "../storeState.ts";

const test = testWithDatabase();

const DONATE = "/app/api/charity/donate";

test("aliases may have amounts that are equal to the cent; others, and fractions of a cent, are rejected", async (t) => {
  const { post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const donate = (amounts: object) => post(DONATE, store.live, { charity_id: EIN, ...amounts });

  const { body } = await donate({ amount: 0.1 + 0.2, amount_dollars: 0.3 });
  t.deepEqual(body, { status: "success", charity_id: EIN, amount: 0.3, mode: "PROD" });
  for (const amounts of [
    {},
    { amount_dollars: 0.001 },
    { amount_dollars: 1.005 },
    { amount_dollars: 0.30001 },
    { amount_dollars: 1e21 },
    { amount_dollars: 5, amount: 6 },
    { amount: 5, donation_amount: 5.01 },
  ]) {
    const { status, body: error } = await donate(amounts);
    t.is(status, 400, JSON.stringify(amounts));
    t.regex(String(error["error"]), /^amount_dollars: |^amount: /u);
  }
  t.is((await state()).balance, 10_000 - 30);
});

test("a charity is found by its EIN, with or without the dash, or its id; an unknown one is rejected", async (t) => {
  const { post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });

  for (const id of [EIN, "53-0196605", `irs_${EIN}`, 530_196_605]) {
    const { status, body } = await post(DONATE, store.live, { charity_id: id, amount: 1 });
    t.is(status, 200);
    t.is(body["charity_id"], String(id));
  }
  for (const id of ["999999999", "irs_1", " ", 1]) {
    const refused = await post(DONATE, store.live, { charity_id: id, amount: 1 });
    t.like(refused, { status: 400, body: { code: "INVALID_PARAMETER" } });
    t.regex(String(refused.body["error"]), /charity_id/u);
  }
  const misspelt = await post(DONATE, store.live, { charity_id: "53-01966", amount: 1 });
  const unknown = "no charity found for the charity_id 53-01966";
  t.is(misspelt.body["error"], `${unknown}; an EIN must be nine digits such as 53-0196605`);
  t.is((await state()).balance, 9600);
});

test("if the charity's provider fails nothing is recorded, and an earlier donation is still replayed", async (t) => {
  const { db, post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const headers = { ...store.live, "Idempotency-Key": "key" };
  const donation = { charity_id: EIN, amount: 1 };
  const first = await post(DONATE, headers, donation);
  // A provider without an API key fails every lookup.
  await updateAccount(db, store.id, { charityProvider: "everyorg" });

  const failed = await post(DONATE, store.live, donation);
  t.like(failed, { status: 500, body: { code: "INTERNAL_ERROR" } });
  t.is((await post(DONATE, headers, donation)).text, first.text);
  t.is((await state()).balance, 900);
});

const DONATIONS = "/app/api/charity/donations";

test("donations are listed newest first by page, with their customer, order and refund", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  for (const [amount, customer_name] of [
    [1.5, "Ann Lee"],
    [2, "Bob"],
    [3, "Anna"],
  ] as const) {
    const given = { charity_id: EIN, amount, customer_name, order_id: "#1001" };
    t.is((await post(DONATE, store.live, given)).status, 200);
  }
  const refund = { type: "donation", quantity: 1, customer_name: "Anna" };
  t.is((await post("/app/api/refund", store.live, refund)).status, 200);

  const first = await get(`${DONATIONS}?limit=2`, store.live);
  t.like(first.body, {
    donations: [
      { amount: 3, customer_name: "Anna", refunded: true },
      { amount: 2, customer_name: "Bob", refunded: false },
    ],
    count: 2,
    has_more: true,
  });
  const query = `?limit=2&after_created_at=${String(first.body["next_cursor"])}`;
  const second = await get(DONATIONS + query, store.live);
  t.like(second.body, { has_more: false, next_cursor: "" });
  const [{ id, created_at, charity_name, ...ann } = {}] = rowsIn(second.body, "donations");
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
  t.is((await get(`${DONATIONS}?customer=ann&order_id=1001`, store.live)).body["count"], 2);
  t.is((await get(DONATIONS, store.test)).body["count"], 0);
});

test("a store searches charities with its own key and donates to one that it found", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });

  const { body } = await get("/app/api/charity/search?ein=53-0196605", store.live);
  t.deepEqual([body["total_items"], body["total_pages"]], [1, 1]);
  const [charity] = rowsIn(body, "charities");
  t.is(charity?.["icon_url"], "https://impact.example/media/charity.svg");
  const donation = { charity_id: charity?.["nonprofit_id"], amount: 1 };
  t.is((await post(DONATE, store.live, donation)).status, 200);
  t.is((await get("/app/api/charity/search", {})).body["code"], "UNAUTHORIZED");
});
