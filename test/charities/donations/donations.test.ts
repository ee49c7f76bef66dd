import { rowsIn } from "../../stores/startStoreApi.ts";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { EIN, NOTHING_RECORDED, RED_CROSS, startDonationApi } from "./donationSetup.ts";
import { readJson, impactOf } from "../../cli/runImpact.ts";
import { createMovableClock } from "../../support/movableClock.ts";

// The catalogue confirms these charities, so no test here needs Temporal, and the API cannot reach it.
const test = testWithDatabase();

const DONATE = "/charities/donate";
const REFUND = "/refund/donations";
const AMOUNT_MUST_BE = /^amount_cents: must be an integer from 1 to 99999999999$/u;

test("a rejected donation or refund records nothing, and the error says why", async (t) => {
  const { call, test: key, ledger } = await startDonationApi(t);
  for (const [path, body, expected, message] of [
    [DONATE, { ein: EIN }, 400, /amount_cents: required/u],
    [DONATE, { amount_cents: 0, ein: EIN }, 400, AMOUNT_MUST_BE],
    [DONATE, { amount_cents: MAXIMUM_CENTS + 1, ein: EIN }, 400, AMOUNT_MUST_BE],
    [DONATE, { amount_cents: 5 }, 400, /one of ein and nonprofit_id is required/u],
    [DONATE, { amount_cents: 5, ein: "53-019660" }, 400, /^ein: must be nine digits such as/u],
    [DONATE, { amount_cents: 5, ein: "00-0000001" }, 400, /no charity found/u],
    [DONATE, { amount_cents: 5, nonprofit_id: "irs_1" }, 400, /found for the nonprofit_id irs_1$/u],
    [
      DONATE,
      { amount_cents: 5, ein: "52-1693387", nonprofit_id: RED_CROSS.nonprofit_id },
      400,
      /do not agree: irs_530196605 is 53-0196605$/u,
    ],
    [REFUND, {}, 400, /^donation id is required$/u],
    [REFUND, { id: crypto.randomUUID() }, 404, /^donation not found$/u],
  ] as const) {
    const response = await call("POST", path, { key, body });
    t.is(response.status, expected, JSON.stringify(body));
    t.regex(String(response.body["error"]), message);
  }
  t.deepEqual(await ledger(), NOTHING_RECORDED);
});

test("live donations need the subscription, and test donations do not", async (t) => {
  const { call, donate, live, test: testKey, ledger } = await startDonationApi(t);
  const subscribe = (key: string) => call("POST", "/charities/subscribe", { key });
  const body = { idempotency_key: "k" };

  const error = "donation subscription not active";
  t.like(await donate(body, live), { status: 400, body: { error } });
  t.is((await donate(body)).status, 200);
  t.regex(String((await subscribe(testKey)).body["message"]), /in test mode/u);
  t.is((await donate(body, live)).status, 400);
  t.is((await subscribe(live)).status, 200);

  const recorded = await donate(body, live);
  t.like(recorded, { status: 200, replayed: null }, "the error is not stored under the key");
  t.is(recorded.body["total_donations"], 1, "each mode has its own total");
  t.like(await ledger(), { donations: 2 });
});

test("a replay does not need the charity provider, whose API key may be gone", async (t) => {
  const { accountId, donate } = await startDonationApi(t);
  const body = { idempotency_key: "k" };
  const first = await donate(body);
  await updateAccount(t.context.db, accountId, { charityProvider: "pledge" });
  const replayed = await donate(body);
  t.like(replayed, { status: 200, body: { donation_id: first.body["donation_id"] } });
  t.is((await donate()).status, 500);
});

test("concurrent refunds of several donations with one key refund one of them", async (t) => {
  const { call, donate, refund, test: key } = await startDonationApi(t);
  const donated = await Promise.all([donate(), donate(), donate()]);
  const responses = await Promise.all(
    donated.map(({ body }) => refund({ id: body["donation_id"], idempotency_key: "k" })),
  );
  const statuses = responses.map(({ status }) => status).toSorted((one, other) => one - other);
  t.deepEqual(statuses, [200, 400, 400]);
  const { body } = await call("GET", "/charities/donations", { key });
  t.is(rowsIn(body, "donations").filter(({ refunded }) => refunded).length, 1);
  t.is(responses.find(({ status }) => status === 200)?.body["total_donations"], 2);
});

const stageList = async (t: DatabaseTest) => {
  const clock = createMovableClock("2026-03-10T12:00:00.000Z");
  const api = await startDonationApi(t, { clock });
  return {
    ...api,
    donate: async (fields: object = {}, at: string | null = null): Promise<string> => {
      if (at !== null) {
        clock.set(at);
      }
      return String((await api.donate(fields)).body["donation_id"]);
    },
    /** Returns the ids on one page of the test key's list. */
    list: async (query: Record<string, string> = {}) => {
      const { status, headers, body } = await api.call(
        "GET",
        `/charities/donations?${new URLSearchParams(query).toString()}`,
        { key: api.test },
      );
      t.is(status, 200);
      const ids = rowsIn(body, "donations").map(({ id }) => id);
      return { ids, body, link: headers.get("link") };
    },
  };
};

test("pages of one time are in the order of ids, and link to the next one with the same filters", async (t) => {
  const { donate, list } = await stageList(t);
  const ids: string[] = [];
  for (let index = 0; index < 3; index += 1) {
    ids.unshift(await donate({ attribution: "a" }));
  }
  await donate({ attribution: "b" });

  const [first, last] = await Promise.all(
    ["1", "2"].map((page) => list({ attribution: "a", page, page_size: "2" })),
  );

  t.deepEqual([first?.ids, last?.ids].flat(), ids);
  t.regex(
    first?.link ?? "",
    /^<http:\/\/127\.0\.0\.1:\d+\/charities\/donations\?attribution=a&page_size=2&page=2>; rel="next"$/u,
  );
  t.is(last?.link, null);
});

test("a range includes its first and its last day, in UTC", async (t) => {
  const { donate, list } = await stageList(t);
  await donate({}, "2026-03-09T23:59:59.999Z");
  const first = await donate({}, "2026-03-10T00:00:00.000Z");
  const last = await donate({}, "2026-03-11T23:59:59.999Z");
  await donate({}, "2026-03-12T00:00:00.000Z");

  const { ids, body } = await list({ start_date: "2026-03-10", end_date: "2026-03-11" });

  t.deepEqual(ids, [last, first]);
  t.is(body["total_items"], 2, "the total counts the filtered list");
  t.is((await list({ start_date: "2026-03-11" })).ids.length, 2);
  t.is((await list({ end_date: "2026-03-09" })).ids.length, 1);
  t.is((await list({ end_date: "9999-12-31" })).ids.length, 4);
});

test("an attribution must match exactly", async (t) => {
  const { donate, list } = await stageList(t);
  const one = await donate({ attribution: "spring" });
  const none = await donate();
  await donate({ attribution: "Spring" });
  t.deepEqual((await list({ attribution: "spring" })).ids, [one]);
  t.deepEqual((await list({ without_attribution: "true" })).ids, [none]);
  const empty = { attribution: "", metadata_key: "", start_date: "", end_date: "", page_size: "" };
  t.is((await list(empty)).ids.length, 3);
});

test("donations are found by a key of their metadata, and by the text of its value", async (t) => {
  const { donate, list } = await stageList(t);
  const text = await donate({ metadata: { a: "1", quoted: '"x"' } });
  const number = await donate({ metadata: { a: 1 } });
  const flag = await donate({ metadata: { a: true } });
  const nothing = await donate({ metadata: { a: null } });
  const nested = await donate({ metadata: { a: { b: [1, "c"] } } });
  await donate({ metadata: { b: 1 } });
  const all = [nested, nothing, flag, number, text];

  for (const [metadata_key, metadata_value, ids] of [
    ["a", "", all],
    ["a", "1", [number, text]],
    ["a", "true", [flag]],
    ["a", '"1"', []],
    ["quoted", '"x"', [text]],
    ["missing", "", []],
    ["a.b", "", []],
  ] as const) {
    const found = await list({ metadata_key, metadata_value });
    t.deepEqual(found.ids, ids, `${metadata_key} ${metadata_value}`);
  }
  t.deepEqual((await list({ metadata_key: "a" })).ids, all);
});

test("the command line shows a donation, and an organization's subscription and provider", async (t) => {
  const { call, donate, refund, live, accountId } = await startDonationApi(t);
  const run = impactOf(t);
  t.regex((await run("org", "show", accountId)).stdout, /live +0 +\$0\.00 +-/u);

  await call("POST", "/charities/subscribe", { key: live });
  const { body } = await donate({ amount_cents: 123_405 }, live);
  const id = String(body["donation_id"]);

  const shown = await run("org", "show", accountId);
  t.regex(shown.stdout, /live +1 +\$1,234\.05 +active +ledger +- +\d{4}-/u);

  const given = { reason: "by mistake", idempotency_key: "r-1", metadata: { ticket: 7 } };
  await refund({ id, ...given }, live);
  t.like(readJson(await run("find", id, "--json")), {
    records: [
      {
        id,
        account_id: accountId,
        mode: "live",
        amount_cents: 123_405,
        charity_name: "American Red Cross",
        ein: "53-0196605",
        refunded: true,
        refund_reason: "by mistake",
        refund_idempotency_key: "r-1",
        refund_metadata: { ticket: 7 },
      },
    ],
  });
  const { stdout } = await run("find", id);
  t.regex(stdout, /amount +\$1,234\.05/u);
  t.regex(stdout, /refund metadata +\{"ticket":7\}/u);

  const updated = await run("org", "update", accountId, "--charity-provider", "everyorg");
  t.regex(updated.stdout, /charity provider +everyorg/u);
  t.is((await run("org", "update", accountId, "--charity-provider", "other")).exitCode, 2);
  t.is((await call("GET", "/charities/search?name=red%20cross", { key: live })).status, 500);
});
