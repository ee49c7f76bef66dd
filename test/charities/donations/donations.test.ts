import type { ExecutionContext } from "ava";
import { z } from "zod";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import {
  EIN,
  fillDonationTotal,
  NOTHING_RECORDED,
  RED_CROSS,
  startDonationApi,
} from "./donationSetup.ts";

// The catalogue confirms these charities, so no test here needs Temporal, and the API cannot reach it.
const test = testWithDatabase();

test("a donation is recorded with all its fields, and the charity supplies omitted ones", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);

  const { status, body, headers } = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: MAXIMUM_CENTS, ein: "530196605", attribution: "a", metadata: { b: 1 } },
  });

  t.is(status, 200);
  t.is(headers.get("Idempotent-Replayed"), null);
  const [details] = z.array(z.looseObject({ id: z.string() })).parse(body["donation_details"]);
  t.like(body, {
    donation_id: details?.id,
    amount_cents: MAXIMUM_CENTS,
    charity_name: RED_CROSS.name,
    ein: RED_CROSS.ein,
    nonprofit_id: RED_CROSS.nonprofit_id,
    total_donations: 1,
  });
  t.like(details, { currency: "USD", attribution: "a", metadata: { b: 1 }, refunded: false });
  t.false("idempotency_key" in (details ?? {}));
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: MAXIMUM_CENTS });
});

const REJECTED: readonly (readonly [object, RegExp])[] = [
  [{ ein: EIN }, /amount_cents: required/u],
  ...[0, -5, 0.5, "5", MAXIMUM_CENTS + 1, 2 ** 53, 1e300].map(
    (amount_cents) =>
      [
        { amount_cents, ein: EIN },
        /^amount_cents: must be an integer from 1 to 99999999999$/u,
      ] as const,
  ),
  [{ amount_cents: 5 }, /one of ein and nonprofit_id is required/u],
  [{ amount_cents: 5, ein: "", nonprofit_id: "" }, /one of/u],
  [{ amount_cents: 5, ein: "53-019660" }, /^ein: must be nine digits such as 53-0196605$/u],
  [{ amount_cents: 5, ein: "00-0000001" }, /no charity found/u],
  [{ amount_cents: 5, nonprofit_id: "irs_1" }, /no charity found/u],
  [{ amount_cents: 5, ein: "52-1693387", nonprofit_id: RED_CROSS.nonprofit_id }, /do not agree/u],
  [{ amount_cents: 5, ein: EIN, currency: "EUR" }, /^currency: must be USD$/u],
];

test("a donation with a wrong amount, charity or currency is a 400 that records nothing", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);
  for (const [body, message] of REJECTED) {
    const response = await call("POST", "/charities/donate", { key, body });
    t.is(response.status, 400, JSON.stringify(body));
    t.regex(String(response.body["error"]), message);
  }
  t.deepEqual(await ledger(), NOTHING_RECORDED);
});

test("live donations need the subscription, and test donations do not", async (t) => {
  const { call, live, test: testKey, ledger } = await startDonationApi(t);
  const body = { amount_cents: 100, ein: EIN, idempotency_key: "k" };

  const rejected = await call("POST", "/charities/donate", { key: live, body });
  t.is(rejected.status, 400);
  t.deepEqual(rejected.body, { error: "donation subscription not active" });
  t.is((await call("POST", "/charities/donate", { key: testKey, body })).status, 200);
  const inTestMode = await call("POST", "/charities/subscribe", { key: testKey });
  t.regex(String(inTestMode.body["message"]), /in test mode/u);
  t.is((await call("POST", "/charities/donate", { key: live, body })).status, 400);
  t.is((await call("POST", "/charities/subscribe", { key: live })).status, 200);

  const recorded = await call("POST", "/charities/donate", { key: live, body });
  t.is(recorded.status, 200, "the error is not stored under the key");
  t.is(recorded.headers.get("Idempotent-Replayed"), null);
  t.is(recorded.body["total_donations"], 1, "each mode has its own total");
  t.like(await ledger(), { donations: 2 });
});

test("a known key returns the original donation, whatever the rest of the body", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);
  const first = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 100, ein: EIN, idempotency_key: "order-1" },
  });
  const again = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 999, nonprofit_id: "nobody", idempotency_key: "order-1" },
  });

  t.is(again.status, 200);
  t.is(again.headers.get("Idempotent-Replayed"), "true");
  t.deepEqual(again.body, first.body);
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 100 });
});

test("fifty concurrent requests with one key record one donation", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);
  const body = { amount_cents: 100, ein: EIN, idempotency_key: "order-1" };

  const responses = await Promise.all(
    Array.from({ length: 50 }, () => call("POST", "/charities/donate", { key, body })),
  );

  t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
  t.is(new Set(responses.map((response) => response.body["donation_id"])).size, 1);
  t.is(responses.filter(({ headers }) => headers.has("Idempotent-Replayed")).length, 49);
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 100 });
});

test("concurrent donations of one account are all counted", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);

  const responses = await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      call("POST", "/charities/donate", { key, body: { amount_cents: index + 1, ein: EIN } }),
    ),
  );

  t.true(responses.every(({ status }) => status === 200));
  t.deepEqual(await ledger(), { donations: 30, count: 30, cents: 465 });
});

test("a donation that would take a total beyond 2^53 - 1 is a 400 that records nothing", async (t) => {
  const { call, test: key, ledger, accountId } = await startDonationApi(t);
  const before = await fillDonationTotal(t.context.db, accountId);
  const donate = (amount_cents: number) =>
    call("POST", "/charities/donate", { key, body: { amount_cents, ein: EIN } });
  const refused = await donate(MAXIMUM_CENTS);
  t.is(refused.status, 400);
  t.regex(String(refused.body["error"]), /^amount_cents: would increase the account's total/u);
  t.is((await donate(MAXIMUM_CENTS - 1)).status, 200);
  t.deepEqual(await ledger(), {
    donations: 1,
    count: 1,
    cents: before + MAXIMUM_CENTS - 1,
  });
});

const setUpRefunds = async (t: ExecutionContext<DatabaseContext>) => {
  const api = await startDonationApi(t);
  return {
    ...api,
    donate: async (amountCents: number): Promise<string> => {
      const { body } = await api.call("POST", "/charities/donate", {
        key: api.test,
        body: { amount_cents: amountCents, ein: "530196605" },
      });
      return String(body["donation_id"]);
    },
    refund: (body: object) => api.call("POST", "/refund/donations", { key: api.test, body }),
  };
};

test("a refunded donation stays in the list and leaves the totals", async (t) => {
  const { donate, refund, call, test: key } = await setUpRefunds(t);
  await donate(300);
  const id = await donate(500);

  const { status, body } = await refund({ id, reason: "cancelled", metadata: { a: 1 } });

  t.is(status, 200);
  t.like(body, { refunded_amount_cents: 500, total_donations: 1, refund_id: `refund-${id}` });
  const [details] = z.array(z.looseObject({})).parse(body["refund_details"]);
  t.like(details, { id, amount_cents: 500, refunded: true });
  const list = await call("GET", "/charities/donations", { key });
  t.is(list.body["total_items"], 2);
  t.deepEqual(
    z
      .array(z.looseObject({ refunded: z.boolean() }))
      .parse(list.body["donations"])
      .map(({ refunded }) => refunded),
    [true, false],
  );
});

test("a key belongs to the donation that it was first used for, and refunds no other", async (t) => {
  const { donate, refund, call, test: key } = await setUpRefunds(t);
  const one = await donate(300);
  const other = await donate(500);
  const first = await refund({ id: one, idempotency_key: "k" });
  const again = await refund({ id: one, idempotency_key: "k" });
  t.deepEqual(again.body, first.body);
  t.is((await refund({ id: one, idempotency_key: "later" })).status, 200);
  for (const known of ["k", "later"]) {
    const second = await refund({ id: other, idempotency_key: known });
    t.is(second.status, 400);
    t.deepEqual(second.body, {
      error: "idempotency_key: belongs to the refund of another donation",
    });
  }
  const list = await call("GET", "/charities/donations", { key });
  t.deepEqual(
    z
      .array(z.looseObject({ id: z.string(), refunded: z.boolean() }))
      .parse(list.body["donations"])
      .map(({ id, refunded }) => [id, refunded]),
    [
      [other, false],
      [one, true],
    ],
  );
});

test("concurrent refunds of one donation refund it once", async (t) => {
  const { donate, refund } = await setUpRefunds(t);
  await donate(300);
  const id = await donate(500);
  const responses = await Promise.all(
    Array.from({ length: 20 }, (_, index) => refund({ id, idempotency_key: `k${index % 4}` })),
  );
  t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
  t.is(new Set(responses.map(({ body }) => JSON.stringify(body))).size, 1);
  t.is(responses.filter(({ headers }) => !headers.has("Idempotent-Replayed")).length, 1);
});

test("concurrent refunds of several donations with one key refund one of them", async (t) => {
  const { donate, refund, call, test: key } = await setUpRefunds(t);
  const ids = [await donate(100), await donate(200), await donate(300)];
  const responses = await Promise.all(ids.map((id) => refund({ id, idempotency_key: "k" })));
  t.is(responses.filter(({ status }) => status === 200).length, 1);
  t.is(responses.filter(({ status }) => status === 400).length, 2);
  const { body } = await call("GET", "/charities/donations", { key });
  const refunded = z.array(z.looseObject({ refunded: z.boolean() })).parse(body["donations"]);
  t.is(refunded.filter((donation) => donation.refunded).length, 1);
  t.is(responses.find(({ status }) => status === 200)?.body["total_donations"], 2);
});

test("a donation of another organization or mode is not found", async (t) => {
  const { donate, call, live } = await setUpRefunds(t);
  const { apiKeyTest: other } = await createTestOrganization(t.context.db);
  const id = await donate(100);
  for (const [key, wanted] of [
    [live, id],
    [other, id],
    [live, crypto.randomUUID()],
    [live, "not-a-uuid"],
  ] as const) {
    const { status, body } = await call("POST", "/refund/donations", { key, body: { id: wanted } });
    t.is(status, 404);
    t.deepEqual(body, { error: "donation not found" });
  }
});

test("a refund without an id is a 400 that says so", async (t) => {
  const { refund } = await setUpRefunds(t);
  for (const body of [{}, { id: "" }, { id: null }]) {
    const response = await refund(body);
    t.is(response.status, 400);
    t.deepEqual(response.body, { error: "donation id is required" });
  }
  t.is((await refund({ id: 7 })).status, 404);
});
