import type { ExecutionContext } from "ava";
import { z } from "zod";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import {
  EIN,
  fillDonationTotal,
  NOTHING_RECORDED,
  RED_CROSS,
  startDonationApi,
} from "./donationSetup.ts";

// The catalogue confirms these charities, so no test here needs Temporal, and the API cannot reach it.
const test = testWithDatabase();

const DONATE = "/charities/donate";
const REFUND = "/refund/donations";
const AMOUNT_MUST_BE = /^amount_cents: must be an integer from 1 to 99999999999$/u;

const REJECTED: readonly (readonly [string, object, number, RegExp])[] = [
  [DONATE, { ein: EIN }, 400, /amount_cents: required/u],
  [DONATE, { amount_cents: 0, ein: EIN }, 400, AMOUNT_MUST_BE],
  [DONATE, { amount_cents: MAXIMUM_CENTS + 1, ein: EIN }, 400, AMOUNT_MUST_BE],
  [DONATE, { amount_cents: 5 }, 400, /one of ein and nonprofit_id is required/u],
  [DONATE, { amount_cents: 5, ein: "53-019660" }, 400, /^ein: must be nine digits such as/u],
  [DONATE, { amount_cents: 5, ein: "00-0000001" }, 400, /no charity found/u],
  [DONATE, { amount_cents: 5, nonprofit_id: "irs_1" }, 400, /no charity found/u],
  [
    DONATE,
    { amount_cents: 5, ein: "52-1693387", nonprofit_id: RED_CROSS.nonprofit_id },
    400,
    /do not agree/u,
  ],
  [REFUND, {}, 400, /^donation id is required$/u],
  [REFUND, { id: crypto.randomUUID() }, 404, /^donation not found$/u],
];

test("a rejected donation or refund records nothing, and the error says why", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);
  for (const [path, body, expected, message] of REJECTED) {
    const response = await call("POST", path, { key, body });
    t.is(response.status, expected, JSON.stringify(body));
    t.regex(String(response.body["error"]), message);
  }
  t.deepEqual(await ledger(), NOTHING_RECORDED);
});

test("concurrent donations of one account are all counted", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);
  const responses = await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      call("POST", DONATE, { key, body: { amount_cents: index + 1, ein: EIN } }),
    ),
  );
  t.true(responses.every(({ status }) => status === 200));
  t.deepEqual(await ledger(), { donations: 30, count: 30, cents: 465 });
});

test("live donations need the subscription, and test donations do not", async (t) => {
  const { call, donate, live, test: testKey, ledger } = await startDonationApi(t);
  const subscribe = (key: string) => call("POST", "/charities/subscribe", { key });
  const body = { idempotency_key: "k" };

  t.like(await donate(body, live), {
    status: 400,
    body: { error: "donation subscription not active" },
  });
  t.is((await donate(body)).status, 200);
  t.regex(String((await subscribe(testKey)).body["message"]), /in test mode/u);
  t.is((await donate(body, live)).status, 400);
  t.is((await subscribe(live)).status, 200);

  const recorded = await donate(body, live);
  t.is(recorded.status, 200, "the error is not stored under the key");
  t.is(recorded.headers.get("Idempotent-Replayed"), null);
  t.is(recorded.body["total_donations"], 1, "each mode has its own total");
  t.like(await ledger(), { donations: 2 });
});

test("a donation that would take a total beyond 2^53 - 1 is a 400 that records nothing", async (t) => {
  const { donate, ledger, accountId } = await startDonationApi(t);
  const before = await fillDonationTotal(t.context.db, accountId);
  const refused = await donate({ amount_cents: MAXIMUM_CENTS });
  t.is(refused.status, 400);
  t.regex(String(refused.body["error"]), /^amount_cents: would increase the account's total/u);
  t.is((await donate({ amount_cents: MAXIMUM_CENTS - 1 })).status, 200);
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: before + MAXIMUM_CENTS - 1 });
});

/** Makes donations of 1, 2, … dollars, and returns their ids and a function that lists the refunded ones. */
const stage = async (t: ExecutionContext<DatabaseContext>, donations: number) => {
  const api = await startDonationApi(t);
  const ids: string[] = [];
  for (let dollars = 1; dollars <= donations; dollars += 1) {
    ids.push(String((await api.donate({ amount_cents: dollars * 100 })).body["donation_id"]));
  }
  return {
    ...api,
    ids,
    listRefunded: async () => {
      const { body } = await api.call("GET", "/charities/donations", { key: api.test });
      return z
        .array(z.looseObject({ id: z.string(), refunded: z.boolean() }))
        .parse(body["donations"])
        .flatMap(({ id, refunded }) => (refunded ? id : []));
    },
  };
};

test("a key belongs to the donation that it was first used for, and refunds no other", async (t) => {
  const { ids, refund, listRefunded } = await stage(t, 2);
  const [id, other] = ids;
  const first = await refund({ id, idempotency_key: "k" });
  t.deepEqual((await refund({ id, idempotency_key: "k" })).body, first.body);
  t.is((await refund({ id, idempotency_key: "later" })).status, 200);
  for (const known of ["k", "later"]) {
    t.like(await refund({ id: other, idempotency_key: known }), {
      status: 400,
      body: { error: "idempotency_key: belongs to the refund of another donation" },
    });
  }
  t.deepEqual(await listRefunded(), [id]);
});

test("concurrent refunds of one donation refund it once, whichever keys they have", async (t) => {
  const { ids, refund } = await stage(t, 2);
  const responses = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      refund({ id: ids[1], idempotency_key: `k${index % 4}` }),
    ),
  );
  t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
  t.is(new Set(responses.map(({ body }) => JSON.stringify(body))).size, 1);
  t.is(responses.filter(({ headers }) => !headers.has("Idempotent-Replayed")).length, 1);
});

test("concurrent refunds of several donations with one key refund one of them", async (t) => {
  const { ids, refund, listRefunded } = await stage(t, 3);
  const responses = await Promise.all(ids.map((id) => refund({ id, idempotency_key: "k" })));
  t.deepEqual(
    responses.map(({ status }) => status).toSorted((one, other) => one - other),
    [200, 400, 400],
  );
  t.is((await listRefunded()).length, 1);
  t.is(responses.find(({ status }) => status === 200)?.body["total_donations"], 2);
});
