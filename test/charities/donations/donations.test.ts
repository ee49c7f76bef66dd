import type { ExecutionContext } from "ava";
import { z } from "zod";
import { readDonationTotals } from "../../../modules/charities/donationTotals.sql.ts";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import type { DonationApi } from "./donationSetup.ts";
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
    body: { amount_cents: 1050, ein: "530196605", attribution: "a", metadata: { b: 1 } },
  });

  t.is(status, 200);
  t.is(headers.get("Idempotent-Replayed"), null);
  const [details] = z.array(z.looseObject({ id: z.string() })).parse(body["donation_details"]);
  t.like(body, {
    donation_id: details?.id,
    amount_cents: 1050,
    charity_name: RED_CROSS.name,
    ein: RED_CROSS.ein,
    nonprofit_id: RED_CROSS.nonprofit_id,
    total_donations: 1,
  });
  t.like(details, { currency: "USD", attribution: "a", metadata: { b: 1 }, refunded: false });
  t.false("idempotency_key" in (details ?? {}));
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 1050 });
});

test("a charity_name in the request is recorded as given", async (t) => {
  const { call, test: key } = await startDonationApi(t);
  const { status, body } = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 1, nonprofit_id: RED_CROSS.nonprofit_id, charity_name: "As I call it" },
  });
  t.is(status, 200);
  t.is(body["charity_name"], "As I call it");
});

const rejects = test.macro({
  exec: async (t, fields: Record<string, unknown>, message: RegExp) => {
    const { call, test: key, ledger } = await startDonationApi(t);
    const { status, body } = await call("POST", "/charities/donate", { key, body: fields });
    t.is(status, 400);
    t.regex(String(body["error"]), message);
    t.deepEqual(await ledger(), NOTHING_RECORDED);
  },
  title: (given = "") => `${given} is a 400 that records nothing`,
});

test("no amount", rejects, { ein: EIN }, /amount_cents: required/u);
test("an amount of 0", rejects, { amount_cents: 0, ein: EIN }, /amount_cents/u);
test("a negative amount", rejects, { amount_cents: -5, ein: EIN }, /amount_cents/u);
test("a fraction of a cent", rejects, { amount_cents: 0.5, ein: EIN }, /amount_cents/u);
test("an amount as text", rejects, { amount_cents: "5", ein: EIN }, /amount_cents/u);
test("an amount beyond 2^53", rejects, { amount_cents: 2 ** 53, ein: EIN }, /amount_cents/u);
test("neither id", rejects, { amount_cents: 5 }, /one of ein and nonprofit_id is required/u);
test("both ids empty", rejects, { amount_cents: 5, ein: "", nonprofit_id: "" }, /one of/u);
test(
  "an EIN without its last digit",
  rejects,
  { amount_cents: 5, ein: "53-019660" },
  /^ein: must be nine digits such as 53-0196605$/u,
);
test("an unknown EIN", rejects, { amount_cents: 5, ein: "00-0000001" }, /no charity found/u);
test(
  "an unknown nonprofit_id",
  rejects,
  { amount_cents: 5, nonprofit_id: "irs_1" },
  /no charity found/u,
);
test(
  "an EIN that does not match the nonprofit_id",
  rejects,
  { amount_cents: 5, ein: "52-1693387", nonprofit_id: RED_CROSS.nonprofit_id },
  /do not agree/u,
);
test(
  "another currency",
  rejects,
  { amount_cents: 5, ein: EIN, currency: "EUR" },
  /^currency: must be USD$/u,
);

test("without Temporal a donation to a catalogue charity is recorded, and its replay returned", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);
  const body = { amount_cents: 700, ein: EIN, idempotency_key: "k" };

  const first = await call("POST", "/charities/donate", { key, body });
  const again = await call("POST", "/charities/donate", { key, body });

  t.is(first.status, 200);
  t.is(first.headers.get("Idempotent-Replayed"), null);
  t.is(again.status, 200);
  t.is(again.headers.get("Idempotent-Replayed"), "true");
  t.deepEqual(again.body, first.body);
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 700 });
});

test("live donations need the subscription, and test donations do not", async (t) => {
  const { call, live, test: testKey, ledger } = await startDonationApi(t);
  const body = { amount_cents: 100, ein: EIN, idempotency_key: "k" };

  const rejected = await call("POST", "/charities/donate", { key: live, body });
  t.is(rejected.status, 400);
  t.deepEqual(rejected.body, { error: "donation subscription not active" });
  t.is((await call("POST", "/charities/donate", { key: testKey, body })).status, 200);
  t.is((await call("POST", "/charities/subscribe", { key: live })).status, 200);

  const recorded = await call("POST", "/charities/donate", { key: live, body });
  t.is(recorded.status, 200, "the error is not stored under the key");
  t.is(recorded.headers.get("Idempotent-Replayed"), null);
  t.is(recorded.body["total_donations"], 1, "each mode has its own total");
  t.like(await ledger(), { donations: 2 });
});

test("a subscription in test mode does not enable live donations", async (t) => {
  const { call, live, test: testKey } = await startDonationApi(t);
  const subscribed = await call("POST", "/charities/subscribe", { key: testKey });
  t.is(subscribed.status, 200);
  t.regex(String(subscribed.body["message"]), /in test mode/u);
  const { status } = await call("POST", "/charities/donate", {
    key: live,
    body: { amount_cents: 100, ein: EIN },
  });
  t.is(status, 400);
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

test("a donation of $999,999,999.99 is recorded, and a larger one is a 400", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);
  const donate = (amount_cents: unknown) =>
    call("POST", "/charities/donate", { key, body: { amount_cents, ein: EIN } });
  for (const amount of [MAXIMUM_CENTS + 1, Number.MAX_SAFE_INTEGER, 2 ** 53, 1e300, -(2 ** 60)]) {
    const { status, body } = await donate(amount);
    t.is(status, 400);
    t.is(body["error"], "amount_cents: must be an integer from 1 to 99999999999");
  }
  const { body } = await donate(MAXIMUM_CENTS);
  t.is(body["amount_cents"], MAXIMUM_CENTS);
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: MAXIMUM_CENTS });
});

type RefundScene = DonationApi & {
  readonly clock: ReturnType<typeof createMovableClock>;
  readonly donate: (amountCents: number) => Promise<string>;
  readonly refund: (body: Record<string, unknown>) => ReturnType<DonationApi["call"]>;
};

const setUpRefunds = async (t: ExecutionContext<DatabaseContext>): Promise<RefundScene> => {
  const clock = createMovableClock("2026-03-10T12:00:00.000Z");
  const api = await startDonationApi(t, { clock });
  return {
    ...api,
    clock,
    donate: async (amountCents) => {
      const { body } = await api.call("POST", "/charities/donate", {
        key: api.test,
        body: { amount_cents: amountCents, ein: "530196605" },
      });
      return String(body["donation_id"]);
    },
    refund: (body) => api.call("POST", "/refund/donations", { key: api.test, body }),
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

test("a refund in a later month lowers the total of the donation's month", async (t) => {
  const { donate, refund, clock, accountId } = await setUpRefunds(t);
  const { db } = t.context;
  const owner = { accountId, mode: "test" } as const;
  const id = await donate(500);
  clock.set("2026-04-02T00:00:00.000Z");
  await donate(200);

  await refund({ id });

  const april = await readDonationTotals(db, owner, new Date("2026-04-02T00:00:00.000Z"));
  const march = await readDonationTotals(db, owner, new Date("2026-03-02T00:00:00.000Z"));
  t.deepEqual(april, {
    all: { count: 1, amountCents: 200 },
    month: { count: 1, amountCents: 200 },
  });
  t.deepEqual(march.month, { count: 0, amountCents: 0 });
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
