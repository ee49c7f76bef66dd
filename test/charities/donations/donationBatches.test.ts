import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { batchIn, fieldsOf, outcomesOf, rejectedIn, rejectionIn } from "../../api/batches.ts";
import type { ApiResponse } from "../../api/startStandaloneApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import {
  EIN,
  fillDonationTotal,
  NOTHING_RECORDED,
  RED_CROSS,
  startDonationApi,
} from "./donationSetup.ts";

// The catalogue confirms these charities, so no test here needs Temporal, and the API cannot reach it.
const test = testWithDatabase();

const details = z.array(z.looseObject({ id: z.string(), refunded: z.boolean() }));

const stage = async (t: DatabaseTest) => {
  const api = await startDonationApi(t);
  const send =
    (path: string) =>
    (items: readonly unknown[], query = ""): Promise<ApiResponse> =>
      api.call("POST", `${path}${query}`, { key: api.test, body: { items } });
  return {
    ...api,
    donateOne: api.donate,
    refundOne: api.refund,
    donate: send("/charities/donate/batch"),
    refund: send("/refund/donations/batch"),
    countEvents: (type: string) =>
      t.context.db.oneFirst(sql.type(z.strictObject({ count: z.int() }))`
        SELECT count(*)::integer AS count FROM event WHERE account_id = ${api.accountId} AND type = ${type}
      `),
  };
};

const idsIn = (response: ApiResponse): readonly string[] =>
  fieldsOf(batchIn(response).results, "donation_id").map(String);

test("each donation of a batch has the response that its single request would have had", async (t) => {
  const { donate, donateOne, call, test: key, ledger, countEvents } = await stage(t);
  const single = await donateOne({ idempotency_key: "known" });

  const batch = await donate([
    { amount_cents: 200, ein: EIN, attribution: "a", metadata: { b: 1 } },
    { amount_cents: 999, ein: EIN, idempotency_key: "known" },
    { amount_cents: 300, nonprofit_id: RED_CROSS.nonprofit_id, charity_name: "As I call it" },
    { amount_cents: 400, ein: EIN, idempotency_key: "new" },
    { amount_cents: 999, ein: EIN, idempotency_key: "new" },
  ]);

  const { succeeded, failed, results } = batchIn(batch);
  t.deepEqual(outcomesOf(results), ["new", "replayed", "new", "new", "replayed"]);
  t.deepEqual(fieldsOf(results, "amount_cents"), [200, 100, 300, 400, 400]);
  t.deepEqual(fieldsOf(results, "total_donations"), [2, 2, 3, 4, 4]);
  t.deepEqual([succeeded, failed], [5, 0]);
  const ids = idsIn(batch);
  t.is(ids[1], String(single.body["donation_id"]));
  t.is(ids[4], ids[3]);
  t.is(results[2]?.body["charity_name"], "As I call it");
  const [first] = details.parse(results[0]?.body["donation_details"]);
  t.like(first, { attribution: "a", metadata: { b: 1 }, ein: EIN, refunded: false });
  t.deepEqual(await ledger(), { donations: 4, count: 4, cents: 1000 });
  t.is(await countEvents("donation.created"), 4);
  const list = await call("GET", "/charities/donations", { key });
  const amounts = details.parse(list.body["donations"]).map((listed) => listed["amount_cents"]);
  t.deepEqual(amounts, [400, 300, 200, 100]);
});

test("a batch with wrong donations records nothing and names them all; with atomic=false it records the others", async (t) => {
  const { donate, ledger, accountId } = await stage(t);
  const malformed = [
    { amount_cents: 100, ein: EIN },
    { amount_cents: 1.5, ein: EIN },
    { amount_cents: 100 },
    "donation",
    { amount_cents: 100, ein: EIN, currency: "EUR" },
  ];
  const unknown = [
    { amount_cents: 100, ein: EIN },
    { amount_cents: 200, ein: "00-0000000", idempotency_key: "twice" },
    { amount_cents: 300, ein: EIN, idempotency_key: "twice" },
    { amount_cents: 400, ein: EIN, nonprofit_id: "irs_000000001" },
  ];

  t.deepEqual(rejectedIn(await donate(malformed)), { 1: 400, 2: 400, 3: 400, 4: 400 });
  t.deepEqual(rejectedIn(await donate(unknown)), { 1: 400, 3: 400 });
  t.deepEqual(await ledger(), NOTHING_RECORDED);

  const batch = await donate(unknown, "?atomic=false");
  const { succeeded, failed, results } = batchIn(batch);
  t.deepEqual(outcomesOf(results), ["new", 400, "new", 400]);
  t.deepEqual([succeeded, failed], [2, 2]);
  t.regex(String(results[1]?.body["error"]), /no charity found for the ein 00-0000000/u);
  const before = await fillDonationTotal(t.context.db, accountId);
  for (const query of ["", "?atomic=false"]) {
    const { status, body } = await donate([{ amount_cents: MAXIMUM_CENTS, ein: EIN }], query);
    t.is(status, 400);
    t.regex(String(body["error"]), /^amount_cents: would increase the account's total/u);
  }
  t.deepEqual(await ledger(), { donations: 2, count: 2, cents: before });
});

const gift = (amount_cents: number, ids: object, idempotency_key = "gift") =>
  Object.assign({ amount_cents, idempotency_key }, ids);

test("the first item of a key that can be recorded is, and later ones are its replays, whatever their charity and amount", async (t) => {
  const { donate, ledger, countEvents } = await stage(t);
  const unknown = { ein: "00-0000000" };
  const items = [
    { amount_cents: 1, ein: EIN },
    gift(20, unknown),
    gift(30, { nonprofit_id: "irs_000000001" }),
    gift(40, { ein: EIN, nonprofit_id: RED_CROSS.nonprofit_id }),
    gift(50, unknown),
  ];

  t.deepEqual(rejectedIn(await donate(items)), { 1: 400, 2: 400 });
  t.deepEqual(await ledger(), NOTHING_RECORDED);

  const { results } = batchIn(await donate(items, "?atomic=false"));
  t.deepEqual(outcomesOf(results), ["new", 400, 400, "new", "replayed"]);
  t.deepEqual(fieldsOf(results, "amount_cents"), [1, undefined, undefined, 40, 40]);
  t.deepEqual(await ledger(), { donations: 2, count: 2, cents: 41 });
  t.is(await countEvents("donation.created"), 2);
});

test("concurrent batches and single donations with the same keys in different orders record each donation once", async (t) => {
  const { donate, donateOne, ledger, countEvents } = await stage(t);
  const items = Array.from({ length: 200 }, (_, index) =>
    gift(index + 1, { ein: EIN }, `gift-${index}`),
  );

  const responses = await Promise.all([
    donate(items),
    donate(items.toReversed()),
    donate(items.slice(50)),
    donate([...items.slice(100), ...items.slice(0, 100)]),
    ...items.slice(0, 10).map((body) => donateOne(body)),
  ]);

  t.true(responses.every(({ status }) => status === 200));
  t.deepEqual(await ledger(), { donations: 200, count: 200, cents: 20_100 });
  t.is(await countEvents("donation.created"), 200);
  const { results } = batchIn(await donate(items));
  t.deepEqual([...new Set(outcomesOf(results))], ["replayed"]);
  const amounts = items.map((item) => item.amount_cents);
  t.deepEqual(fieldsOf(results, "amount_cents"), amounts);
});

test("each refund of a batch has the response that its single request would have had", async (t) => {
  const { donate, refund, refundOne, ledger, countEvents } = await stage(t);
  const [a = "", b = "", c = "", d = ""] = idsIn(
    await donate([1, 20, 300, 4000].map((amount_cents) => ({ amount_cents, ein: EIN }))),
  );
  await refundOne({ id: d, idempotency_key: "k-d" });

  const items = [
    { id: a, reason: "cancelled", idempotency_key: "k-a", metadata: { x: 1 } },
    { id: a, idempotency_key: "k-a" },
    { id: b, idempotency_key: "k-a" },
    { id: d },
    { id: crypto.randomUUID() },
    { id: c },
    { id: c, idempotency_key: "k-d" },
  ];
  const otherDonation = "idempotency_key: belongs to the refund of another donation";
  t.deepEqual(rejectionIn(await refund(items)).errors, [
    { index: 2, status: 400, error: otherDonation },
    { index: 4, status: 404, error: "donation not found" },
    { index: 6, status: 400, error: otherDonation },
  ]);
  t.like(await ledger(), { count: 3, cents: 321 });

  const { results } = batchIn(await refund(items, "?atomic=false"));
  t.deepEqual(outcomesOf(results), ["new", "replayed", 400, "replayed", 404, "new", 400]);
  const none = undefined;
  t.deepEqual(fieldsOf(results, "refunded_amount_cents"), [1, 1, none, 4000, none, 300, none]);
  t.deepEqual(fieldsOf(results, "total_donations"), [2, 2, none, 2, none, 1, none]);
  const [first] = results;
  t.is(first?.body["refund_id"], `refund-${a}`);
  t.like(details.parse(first?.body["refund_details"])[0], { id: a, refunded: true });
  t.like(await ledger(), { donations: 4, count: 1, cents: 20 });
  t.is(await countEvents("donation.refunded"), 3);
});

test("concurrent batches and single refunds refund each donation once", async (t) => {
  const { donate, refund, refundOne, ledger, countEvents } = await stage(t);
  const gifts = Array.from({ length: 120 }, () => ({ amount_cents: 5, ein: EIN }));
  const ids = idsIn(await donate(gifts));
  const items = ids.map((id) => ({ id, idempotency_key: `refund-${id}` }));

  const responses = await Promise.all([
    refund(items),
    refund(items.toReversed()),
    refund(items.slice(0, 60)),
    ...items.slice(0, 10).map((body) => refundOne(body)),
  ]);

  t.true(responses.every(({ status }) => status === 200));
  t.deepEqual(await ledger(), { donations: 120, count: 0, cents: 0 });
  t.is(await countEvents("donation.refunded"), 120);
});

test("the refund of a donation may have any number of keys, and all of them repeat it", async (t) => {
  const { donate, refund, refundOne, ledger } = await stage(t);
  const [id = ""] = idsIn(await donate([{ amount_cents: 100, ein: EIN }]));
  const keys = Array.from({ length: 102 }, (_, index) => `key-${index}`);
  const items = keys.map((key) => ({ id, idempotency_key: key }));

  t.is(batchIn(await refund(items)).succeeded, items.length);

  for (const idempotencyKey of ["key-0", "key-101", "key-102"]) {
    const again = await refundOne({ id, idempotency_key: idempotencyKey });
    t.like(again, { status: 200, replayed: "true" });
  }
  t.like(await ledger(), { count: 0, cents: 0 });
});
