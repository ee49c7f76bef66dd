import { z } from "zod";
import type { ExecutionContext } from "ava";
import { readJson, impactOf } from "../../cli/runImpact.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { startDonationApi } from "./donationSetup.ts";

const test = testWithDatabase();

const listed = z.array(z.looseObject({ id: z.string() }));

const stage = async (t: ExecutionContext<DatabaseContext>) => {
  const clock = createMovableClock("2026-03-10T12:00:00.000Z");
  const api = await startDonationApi(t, { clock });
  return {
    ...api,
    /** Records a donation with the test key and returns its id. */
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
      const ids = listed.parse(body["donations"]).map(({ id }) => id);
      return { ids, body, link: headers.get("link") };
    },
  };
};

test("pages hold every donation once, newest first, and link to the next one with the same filters", async (t) => {
  const { donate, list } = await stage(t);
  const ids: string[] = [];
  for (let index = 0; index < 7; index += 1) {
    ids.unshift(await donate({ attribution: "a" }));
  }
  await donate({ attribution: "b" });

  const pages = await Promise.all(
    ["1", "2", "3"].map((page) => list({ attribution: "a", page, page_size: "3" })),
  );

  t.deepEqual(
    pages.flatMap((page) => page.ids),
    ids,
    "donations of the same time are in the order of their ids",
  );
  t.like(pages[2]?.body, { total_items: 7, total_pages: 3, page: 3, page_size: 3 });
  t.regex(
    pages[1]?.link ?? "",
    /^<http:\/\/127\.0\.0\.1:\d+\/charities\/donations\?attribution=a&page_size=3&page=3>; rel="next"$/u,
  );
  t.is(pages[2]?.link, null);
  t.like(await list({ attribution: "c" }), {
    link: null,
    body: { total_items: 0, total_pages: 0 },
  });
  t.like((await list({ page: "4", page_size: "3" })).body, { total_items: 8, donations: [] });
  t.like((await list({ page: "999999999" })).body, { total_items: 8, total_pages: 1 });
});

test("a range includes its first and its last day, in UTC", async (t) => {
  const { donate, list } = await stage(t);
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
  const { donate, list } = await stage(t);
  const one = await donate({ attribution: "spring" });
  const none = await donate();
  await donate({ attribution: "Spring" });
  t.deepEqual((await list({ attribution: "spring" })).ids, [one]);
  t.deepEqual((await list({ without_attribution: "true" })).ids, [none]);
  const empty = { attribution: "", metadata_key: "", start_date: "", end_date: "", page_size: "" };
  t.is((await list(empty)).ids.length, 3);
});

test("donations are found by a key of their metadata, and by its value as text or JSON", async (t) => {
  const { donate, list } = await stage(t);
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
    ["a", "null", [nothing]],
    ["a", '{"b":[1,"c"]}', [nested]],
    ["a", '{ "b": [1, "c"] }', [nested]],
    // A string is not compared as JSON.
    ["a", '"1"', []],
    ["quoted", '"x"', [text]],
    ["a", "1e999", []],
    ["a", String.raw`{"b":"\u0000"}`, []],
    ["a", "[".repeat(2000), []],
    ["missing", "", []],
    ["a.b", "", []],
  ] as const) {
    const found = await list({ metadata_key, metadata_value });
    t.deepEqual(found.ids, ids, `${metadata_key} ${metadata_value}`);
  }
  t.deepEqual((await list({ metadata_key: "a" })).ids, all);
});

test("a donation must match all filters", async (t) => {
  const { donate, list } = await stage(t);
  const wanted = await donate({ attribution: "x", metadata: { k: "v" } });
  await donate({ attribution: "y", metadata: { k: "v" } });
  await donate({ attribution: "x", metadata: { k: "w" } });
  const query = { attribution: "x", metadata_key: "k", metadata_value: "v" };
  t.deepEqual((await list({ ...query, start_date: "2026-03-10" })).ids, [wanted]);
  t.deepEqual((await list({ ...query, start_date: "2026-03-11" })).ids, []);
});

test("the command line shows an organization's donations, subscription and provider", async (t) => {
  const { call, donate, refund, live, accountId } = await startDonationApi(t);
  const run = impactOf(t);
  const list = (...args: readonly string[]) => run("donation", "list", "--org", accountId, ...args);
  t.regex((await run("org", "show", accountId)).stdout, /live +0 +\$0\.00 +none/u);

  await call("POST", "/charities/subscribe", { key: live });
  const { body } = await donate({ amount_cents: 123_405 }, live);
  const id = String(body["donation_id"]);

  const shown = await run("org", "show", accountId);
  t.regex(shown.stdout, /live +1 +\$1,234\.05 +active since \S+ \S+ \(ledger\)/u);
  t.regex((await list()).stdout, /\$1,234\.05 +American Red Cross +53-0196605/u);
  t.deepEqual(readJson(await list("--mode", "test", "--json")), []);
  await donate({}, live);
  const more = /Showing the first 1\. To see more, raise --limit\./u;
  t.regex((await list("--limit", "1")).stderr, more);
  t.notRegex((await list("--limit", "2")).stderr, /Showing the first/u);

  const given = { reason: "by mistake", idempotency_key: "r-1", metadata: { ticket: 7 } };
  await refund({ id, ...given }, live);
  const details = z.looseObject({}).parse(readJson(await run("donation", "show", id, "--json")));
  t.like(details, {
    id,
    account_id: accountId,
    mode: "live",
    amount_cents: 123_405,
    refunded: true,
    refund_reason: "by mistake",
    refund_idempotency_key: "r-1",
    refund_metadata: { ticket: 7 },
  });
  t.regex((await run("donation", "show", id)).stdout, /refund metadata +\{"ticket":7\}/u);
  t.is((await run("donation", "show", crypto.randomUUID())).exitCode, 3);
  t.is((await run("donation", "list", "--org", crypto.randomUUID())).exitCode, 3);

  const updated = await run("org", "update", accountId, "--charity-provider", "everyorg");
  t.regex(updated.stdout, /charity provider +everyorg/u);
  t.is((await run("org", "update", accountId, "--charity-provider", "other")).exitCode, 2);
  t.is((await call("GET", "/charities/search?name=red%20cross", { key: live })).status, 500);
});
