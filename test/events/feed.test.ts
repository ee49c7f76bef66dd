import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { EventType } from "../../modules/events/events.rules.ts";
import { closeUsage } from "../../modules/billing/reconciliation/repairUsage.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import { idIn } from "../api/contract.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";
import type { ApiResponse } from "../api/startStandaloneApi.ts";
import { listFailedEvents, setUpBilling } from "../billing/billingSetup.ts";
import { RED_CROSS, startDonationApi } from "../charities/donations/donationSetup.ts";
import { impactOf } from "../cli/runImpact.ts";
import { REFUSED } from "../stripeDouble/faults.ts";
import { lineOf } from "../history/importLine.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";
import { readEvents, refunded, untilComplete } from "./readEvents.ts";

const test = testWithDatabase();

test("registrations, refunds and donations are events, oldest first, with their data", async (t) => {
  const { call, test: key, accountId } = await startDonationApi(t);
  const registered = await call("POST", "/plant/trees", {
    key,
    body: { count: 3, idempotency_key: "order-1", attribution: "a", metadata: { b: [1] } },
  });
  const id = idIn(registered.body, "tree");
  await call("POST", "/refund/trees", { key, body: { id, count: 1, reason: "returned" } });
  await call("POST", "/refund/trees", { key, body: { id, count: 2 } });
  const given = { amount_cents: 500, ein: "530196605", metadata: { c: 2 } };
  const donated = await call("POST", "/charities/donate", { key, body: given });
  t.is(donated.status, 200);
  const donationId = String(donated.body["donation_id"]);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await call("POST", "/refund/donations", { key, body: { id: donationId, reason: "error" } });
  }

  const deps = { db: t.context.db, clock: systemClock };
  const events = await readEvents(deps, { accountId, mode: "test" });
  const donation = {
    donation_id: donationId,
    amount_cents: 500,
    currency: "USD",
    ein: RED_CROSS.ein,
    nonprofit_id: RED_CROSS.nonprofit_id,
    charity_name: RED_CROSS.name,
  };
  t.deepEqual(
    events.map(({ type, data }) => [type, data]),
    [
      [
        "registration.created",
        {
          registration_id: id,
          kind: "tree",
          count: 3,
          fractional_count: 0,
          idempotency_key: "order-1",
          attribution: "a",
          metadata: { b: [1] },
        },
      ],
      [
        "registration.refunded",
        { registration_id: id, kind: "tree", count: 1, remaining_count: 2, reason: "returned" },
      ],
      [
        "registration.refunded",
        { registration_id: id, kind: "tree", count: 2, remaining_count: 0, reason: "" },
      ],
      [
        "donation.created",
        { ...donation, idempotency_key: "", attribution: "", metadata: { c: 2 } },
      ],
      ["donation.refunded", { ...donation, reason: "error" }],
    ],
  );
});

test("usage that fails and is retried is two events, and closing it or a refund that waits for it is none", async (t) => {
  const { deps, double, stream, register, refund, pass, drain, retryFailed } =
    await setUpBilling(t);
  const types: readonly EventType[] = ["usage.failed", "usage.recovered"];
  const read = async () => {
    const events = await readEvents(deps, stream, { types });
    return events.map(({ type, data }) => [type, "count" in data ? data.count : null]);
  };
  double.control.addFault(REFUSED);
  const id = await register(2);
  await drain();
  t.deepEqual(await read(), [["usage.failed", 2]]);
  await refund(id, 1);
  await drain();
  await retryFailed();
  await drain();
  const recovered = [
    ["usage.failed", 2],
    ["usage.recovered", 2],
  ];
  t.deepEqual(await read(), recovered);

  pass(10);
  double.control.addFault(REFUSED);
  await register(5);
  await drain();
  await closeUsage(deps, await listFailedEvents(deps.db, stream), { document: null });
  t.deepEqual(await read(), [...recovered, ["usage.failed", 5]]);
});

const BASE = "https://impact.example/api";

const feed = z.strictObject({
  events: z.array(
    z.strictObject({
      id: z.string(),
      timestamp: z.string(),
      type: z.string(),
      data: z.record(z.string(), z.unknown()),
    }),
  ),
  has_more: z.boolean(),
  held_back_since: z.string().nullable(),
});
type FeedBody = z.output<typeof feed>;

const countsOf = ({ events }: FeedBody) => events.map(({ data }) => data["count"]);

/** Calls the API until it returns a page with nothing held back. */
const readBody = async (call: () => Promise<ApiResponse>): Promise<FeedBody> => {
  const { body } = await untilComplete(
    call,
    ({ status, body: read }) => status === 200 && read["held_back_since"] !== null,
  );
  return feed.parse(body);
};

test("pages follow each other by the last event's id, and types select", async (t) => {
  const { call, key } = await startApiOf(t, { publicBaseUrl: BASE });
  for (let count = 1; count <= 5; count += 1) {
    await call("POST", "/rescue/plastic_bottles", { key, body: { count } });
  }
  const all = await readBody(() => call("GET", "/events", { key }));
  t.deepEqual(countsOf(all), [1, 2, 3, 4, 5]);

  const first = await call("GET", "/events?limit=2", { key });
  const page = feed.parse(first.body);
  t.deepEqual(countsOf(page), [1, 2]);
  t.true(page.has_more);
  const last = page.events.at(-1)?.id ?? "";
  t.is(first.headers.get("link"), `<${BASE}/events?limit=2&starting_after=${last}>; rel="next"`);

  const rest = await call("GET", `/events?limit=3&starting_after=${last}`, { key });
  t.deepEqual(countsOf(feed.parse(rest.body)), [3, 4, 5]);
  t.is(rest.headers.get("link"), null, "there is nothing more");
  const end = all.events.at(-1)?.id ?? "";
  const { body } = await call("GET", `/events?starting_after=${end}`, { key });
  t.deepEqual(feed.parse(body), { events: [], has_more: false, held_back_since: null });

  const unseen = "registration.refunded,donation.created";
  const refunds = await call("GET", `/events?types=${unseen}`, { key });
  t.deepEqual(feed.parse(refunds.body).events, []);
  const created = await call("GET", "/events?types=registration.created", { key });
  t.is(feed.parse(created.body).events.length, 5);
  const unknown = await call("GET", "/events?types=registration.created,x", { key });
  t.is(unknown.status, 400);
  t.regex(String(unknown.body["error"]), /^types: must be one or more of/u);
  const error = "limit: must be an integer of at least 1";
  t.like(await call("GET", "/events?limit=0", { key }), { status: 400, body: { error } });
});

test("the feed is the key's account's and mode's alone, and without imported and stores' records", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const [mine, other] = [await createTestOrganization(db), await createTestOrganization(db)];
  await call("POST", "/plant/trees", { key: mine.apiKeyProd, body: { count: 1 } });
  await call("POST", "/plant/trees", { key: mine.apiKeyTest, body: { count: 2 } });
  await call("POST", "/plant/trees", { key: other.apiKeyProd, body: { count: 3 } });
  const stdin = [lineOf({ count: 4, id: "old-1" }), lineOf({ count: 6 })].join("\n");
  await impactOf(t, { stdin }).ok("import", "history", "-", "--org", mine.id);
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, unit_price_cents)
    VALUES (gen_random_uuid(), ${mine.id}, 'live', 'tree', 5, now(), 100)
  `);
  const read = async (key: string) =>
    countsOf(await readBody(() => call("GET", "/events", { key })));
  t.deepEqual(await read(mine.apiKeyProd), [1]);
  t.deepEqual(await read(mine.apiKeyTest), [2]);
  t.deepEqual(await read(other.apiKeyProd), [3]);

  const [event] = feed.parse((await call("GET", "/events", { key: other.apiKeyProd })).body).events;
  for (const key of [mine.apiKeyProd, other.apiKeyTest]) {
    const unknown = await call("GET", `/events?starting_after=${event?.id}`, { key });
    const malformed = await call("GET", "/events?starting_after=1", { key });
    t.is(unknown.status, 410);
    t.regex(
      String(unknown.body["error"]),
      /lost when the database was restored.*without starting_after/u,
    );
    t.is(malformed.status, 410);
    t.deepEqual(malformed.body, unknown.body);
  }
});

test("a page ends before its JSON becomes large", async (t) => {
  const { call, id: accountId, key } = await startApiOf(t);
  // jsonb writes each number with 301 digits.
  const metadata = { numbers: Array.from({ length: 1200 }, () => 1e300) };
  for (const count of [1, 2, 3, 4, 5]) {
    await registerFor(t.context.db, accountId, { count, metadata });
  }
  const found: unknown[] = [];
  let after = "";
  let page: FeedBody;
  do {
    const path = after;
    page = await readBody(() => call("GET", `/events${path}`, { key }));
    t.true(page.events.length >= 1 && page.events.length < 5);
    found.push(...page.events.map(({ data }) => data["count"]));
    after = `?starting_after=${page.events.at(-1)?.id}`;
  } while (page.has_more);
  t.deepEqual(found, [1, 2, 3, 4, 5]);
});

test("impact export events has the feed, or what happened in a time", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { id } = await createTestOrganization(db);
  const now = Date.now();
  for (const [name, minutes] of [
    ["1", 2],
    ["2", 0],
  ] as const) {
    const at = new Date(now - minutes * 60_000);
    await recordEvent(db, { accountId: id, mode: "live" }, at, refunded(name));
  }
  await readEvents({ db, clock: systemClock }, { accountId: id, mode: "live" });
  const run = await impact.ok("export", "events", "--org", id);
  t.regex(run.stdout, /^id,timestamp,type,data\r\nevt_\w+,\S+Z,registration\.refunded,"\{/u);

  const since = new Date(now - 60_000).toISOString();
  const filter = ["--since", since, "--format", "ndjson"];
  const later = await impact("export", "events", "--org", id, ...filter);
  const data = { registration_id: "2" };
  t.like(JSON.parse(later.stdout), { type: "registration.refunded", data });
});
