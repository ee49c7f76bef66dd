import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { batchIn, rejectionIn } from "../../api/batches.ts";
import type { ApiResponse } from "../../api/startStandaloneApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
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

const details = z.array(z.looseObject({ id: z.string(), refunded: z.boolean() }));

type Scene = DonationApi & {
  readonly donate: (items: readonly unknown[], query?: string) => Promise<ApiResponse>;
  readonly refund: (items: readonly unknown[], query?: string) => Promise<ApiResponse>;
  readonly countEvents: (type: string) => Promise<number>;
};

const stage = async (t: ExecutionContext<DatabaseContext>): Promise<Scene> => {
  const api = await startDonationApi(t);
  const send =
    (path: string) =>
    (items: readonly unknown[], query = ""): Promise<ApiResponse> =>
      api.call("POST", `${path}${query}`, { key: api.test, body: { items } });
  return {
    ...api,
    donate: send("/charities/donate/batch"),
    refund: send("/refund/donations/batch"),
    countEvents: (type) =>
      t.context.db.oneFirst(sql.type(z.strictObject({ count: z.int() }))`
        SELECT count(*)::integer AS count FROM event WHERE account_id = ${api.accountId} AND type = ${type}
      `),
  };
};

const idsIn = (response: ApiResponse): readonly string[] =>
  batchIn(response).results.map(({ body }) => String(body["donation_id"]));

test("each donation of a batch has the response that its single request would have had", async (t) => {
  const { donate, call, test: key, ledger, countEvents } = await stage(t);
  const single = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 100, ein: EIN, idempotency_key: "known" },
  });

  const { succeeded, failed, results } = batchIn(
    await donate([
      { amount_cents: 200, ein: EIN, attribution: "a", metadata: { b: 1 } },
      { amount_cents: 999, ein: EIN, idempotency_key: "known" },
      { amount_cents: 300, nonprofit_id: RED_CROSS.nonprofit_id, charity_name: "As I call it" },
      { amount_cents: 400, ein: EIN, idempotency_key: "new" },
      { amount_cents: 999, ein: EIN, idempotency_key: "new" },
    ]),
  );

  t.deepEqual([succeeded, failed], [5, 0]);
  t.deepEqual(
    results.map(({ idempotent_replayed: replayed, body }) => [
      replayed,
      body["amount_cents"],
      body["total_donations"],
    ]),
    [
      [false, 200, 2],
      [true, 100, 2],
      [false, 300, 3],
      [false, 400, 4],
      [true, 400, 4],
    ],
  );
  t.is(results[1]?.body["donation_id"], single.body["donation_id"]);
  t.is(results[4]?.body["donation_id"], results[3]?.body["donation_id"]);
  t.is(results[2]?.body["charity_name"], "As I call it");
  const [first] = details.parse(results[0]?.body["donation_details"]);
  t.like(first, { attribution: "a", metadata: { b: 1 }, ein: EIN, refunded: false });
  t.deepEqual(await ledger(), { donations: 4, count: 4, cents: 1000 });
  t.is(await countEvents("donation.created"), 4);
  const list = await call("GET", "/charities/donations", { key });
  t.deepEqual(
    z
      .array(z.looseObject({ amount_cents: z.int() }))
      .parse(list.body["donations"])
      .map(({ amount_cents: cents }) => cents),
    [400, 300, 200, 100],
  );
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
    { amount_cents: MAXIMUM_CENTS, ein: EIN },
  ];

  const before = await fillDonationTotal(t.context.db, accountId);
  const rejected = rejectionIn(await donate(malformed));
  t.deepEqual(
    rejected.errors.map(({ index, status }) => [index, status]),
    [
      [1, 400],
      [2, 400],
      [3, 400],
      [4, 400],
    ],
  );
  t.deepEqual(
    rejectionIn(await donate(unknown)).errors.map(({ index, status }) => [index, status]),
    [
      [1, 400],
      [3, 400],
      [4, 400],
    ],
  );
  t.deepEqual(await ledger(), { ...NOTHING_RECORDED, cents: before });

  const { succeeded, failed, results } = batchIn(await donate(unknown, "?atomic=false"));
  t.deepEqual([succeeded, failed], [2, 3]);
  t.deepEqual(
    results.map(({ status }) => status),
    [200, 400, 200, 400, 400],
  );
  t.regex(String(results[1]?.body["error"]), /no charity found for the ein 00-0000000/u);
  t.regex(String(results[4]?.body["error"]), /would increase the account's total/u);
  t.deepEqual(await ledger(), { donations: 2, count: 2, cents: before + 400 });
});

const gift = (amount: number, ids: object) => ({
  amount_cents: amount,
  idempotency_key: "gift",
  ...ids,
});

test("an item that repeats the key of an accepted item is a replay, whatever its charity and amount are", async (t) => {
  const { donate, ledger, countEvents } = await stage(t);

  const { results } = batchIn(
    await donate([
      gift(100, { ein: EIN }),
      gift(200, { ein: "00-0000000" }),
      gift(MAXIMUM_CENTS, { ein: EIN }),
    ]),
  );

  t.deepEqual(
    results.map(({ idempotent_replayed: replayed, body }) => [
      replayed,
      body["amount_cents"],
      body["total_donations"],
    ]),
    [
      [false, 100, 1],
      [true, 100, 1],
      [true, 100, 1],
    ],
  );
  t.is(new Set(results.map(({ body }) => body["donation_id"])).size, 1);
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 100 });
  t.is(await countEvents("donation.created"), 1);
});

test("the first item of a key that can be recorded is, and later ones are its replays", async (t) => {
  const { donate, ledger, accountId } = await stage(t);
  const before = await fillDonationTotal(t.context.db, accountId);
  const unknown = { ein: "00-0000000" };
  const items = [
    { amount_cents: 1, ein: EIN },
    gift(20, unknown),
    gift(MAXIMUM_CENTS, { ein: EIN }),
    gift(MAXIMUM_CENTS, { nonprofit_id: RED_CROSS.nonprofit_id }),
    gift(30, { nonprofit_id: "irs_000000001" }),
    gift(40, { ein: EIN, nonprofit_id: RED_CROSS.nonprofit_id }),
    gift(50, unknown),
  ];

  t.deepEqual(
    rejectionIn(await donate(items)).errors.map(({ index, status }) => [index, status]),
    [1, 2, 3, 4].map((index) => [index, 400]),
  );
  t.deepEqual(await ledger(), { ...NOTHING_RECORDED, cents: before });

  const { results } = batchIn(await donate(items, "?atomic=false"));
  t.deepEqual(
    results.map(({ status, idempotent_replayed: replayed, body }) => [
      status,
      replayed,
      body["amount_cents"],
    ]),
    [
      [200, false, 1],
      ...[1, 2, 3, 4].map(() => [400, undefined, undefined]),
      [200, false, 40],
      [200, true, 40],
    ],
  );
  t.deepEqual(await ledger(), { donations: 2, count: 2, cents: before + 41 });
});

test("concurrent batches with the same keys in different orders record each donation once", async (t) => {
  const { donate, call, test: key, ledger, countEvents } = await stage(t);
  const items = Array.from({ length: 200 }, (_, index) => ({
    amount_cents: index + 1,
    ein: EIN,
    idempotency_key: `gift-${index}`,
  }));

  const responses = await Promise.all([
    donate(items),
    donate(items.toReversed()),
    donate(items.slice(50)),
    donate([...items.slice(100), ...items.slice(0, 100)]),
    ...items.slice(0, 10).map((body) => call("POST", "/charities/donate", { key, body })),
  ]);

  t.true(responses.every(({ status }) => status === 200));
  t.deepEqual(await ledger(), { donations: 200, count: 200, cents: 20_100 });
  t.is(await countEvents("donation.created"), 200);
  const again = batchIn(await donate(items));
  t.true(again.results.every(({ idempotent_replayed: replayed }) => replayed));
  t.deepEqual(
    again.results.map(({ body }) => body["amount_cents"]),
    items.map(({ amount_cents: cents }) => cents),
  );
});

test("without the donation subscription a live batch is rejected item by item", async (t) => {
  const { call, live, ledger } = await stage(t);
  const items = [
    { amount_cents: 1, ein: EIN },
    { amount_cents: 2, ein: EIN },
  ];
  const send = () => call("POST", "/charities/donate/batch", { key: live, body: { items } });
  t.deepEqual(
    rejectionIn(await send()).errors,
    [0, 1].map((index) => ({
      index,
      status: 400,
      error: "donation subscription not active",
    })),
  );
  t.is((await call("POST", "/charities/subscribe", { key: live })).status, 200);
  t.is(batchIn(await send()).succeeded, 2);
  t.deepEqual(await ledger(), { donations: 2, count: 2, cents: 3 });
});

test("the refund of a donation may have any number of keys, and all of them repeat it", async (t) => {
  const { donate, refund, call, test: key, ledger } = await stage(t);
  const [id = ""] = idsIn(await donate([{ amount_cents: 100, ein: EIN }]));
  const items = Array.from({ length: 102 }, (_, index) => ({
    id,
    idempotency_key: `key-${index}`,
  }));

  t.is(batchIn(await refund(items)).succeeded, items.length);

  for (const idempotencyKey of ["key-0", "key-101", "key-102"]) {
    const body = { id, idempotency_key: idempotencyKey };
    const { status, headers } = await call("POST", "/refund/donations", { key, body });
    t.is(status, 200);
    t.is(headers.get("Idempotent-Replayed"), "true");
  }
  t.like(await ledger(), { count: 0, cents: 0 });
});

test("each refund of a batch has the response that its single request would have had", async (t) => {
  const { donate, refund, call, test: key, ledger, countEvents } = await stage(t);
  const [a = "", b = "", c = "", d = ""] = idsIn(
    await donate([1, 20, 300, 4000].map((amount_cents) => ({ amount_cents, ein: EIN }))),
  );
  await call("POST", "/refund/donations", { key, body: { id: d, idempotency_key: "k-d" } });

  const items = [
    { id: a, reason: "cancelled", idempotency_key: "k-a", metadata: { x: 1 } },
    { id: a, idempotency_key: "k-a" },
    { id: b, idempotency_key: "k-a" },
    { id: d },
    { id: crypto.randomUUID() },
    { id: c },
    { id: c, idempotency_key: "k-d" },
  ];
  t.deepEqual(
    rejectionIn(await refund(items)).errors.map(({ index, status, error }) => [
      index,
      status,
      error,
    ]),
    [
      [2, 400, "idempotency_key: belongs to the refund of another donation"],
      [4, 404, "donation not found"],
      [6, 400, "idempotency_key: belongs to the refund of another donation"],
    ],
  );
  t.like(await ledger(), { count: 3, cents: 321 });

  const { results } = batchIn(await refund(items, "?atomic=false"));
  t.deepEqual(
    results.map(({ status, idempotent_replayed: replayed, body }) => [
      status,
      replayed,
      body["refunded_amount_cents"],
      body["total_donations"],
    ]),
    [
      [200, false, 1, 2],
      [200, true, 1, 2],
      [400, undefined, undefined, undefined],
      [200, true, 4000, 2],
      [404, undefined, undefined, undefined],
      [200, false, 300, 1],
      [400, undefined, undefined, undefined],
    ],
  );
  t.is(results[0]?.body["refund_id"], `refund-${a}`);
  t.like(details.parse(results[0]?.body["refund_details"])[0], { id: a, refunded: true });
  t.like(await ledger(), { donations: 4, count: 1, cents: 20 });
  t.is(await countEvents("donation.refunded"), 3);
});

test("concurrent batches and single refunds refund each donation once", async (t) => {
  const { donate, refund, call, test: key, ledger, countEvents } = await stage(t);
  const ids = idsIn(
    await donate(Array.from({ length: 120 }, () => ({ amount_cents: 5, ein: EIN }))),
  );
  const items = ids.map((id) => ({ id, idempotency_key: `refund-${id}` }));

  const responses = await Promise.all([
    refund(items),
    refund(items.toReversed()),
    refund(items.slice(0, 60)),
    ...items.slice(0, 10).map((body) => call("POST", "/refund/donations", { key, body })),
  ]);

  t.true(responses.every(({ status }) => status === 200));
  t.deepEqual(await ledger(), { donations: 120, count: 0, cents: 0 });
  t.is(await countEvents("donation.refunded"), 120);
});

test("the bounds of a batch and its keys are those of other batches", async (t) => {
  const { donate, call, test: key } = await stage(t);
  t.is((await donate([])).status, 400);
  t.is((await donate(Array.from({ length: 1001 }, () => ({})))).status, 400);
  t.is((await donate([{ amount_cents: 1, ein: EIN }], "?atomic=maybe")).status, 400);
  const keyed = await call("POST", "/charities/donate/batch", {
    key,
    body: { items: [{ amount_cents: 1, ein: EIN }] },
    headers: { "Idempotency-Key": "k" },
  });
  t.regex(String(keyed.body["error"]), /not accepted for a batch/u);
});
