import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { recordEvent } from "../../services/events/recordEvent.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import type { ApiResponse } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { refunded, untilComplete } from "./readEvents.ts";

const test = testWithDatabase();

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
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db, publicBaseUrl: BASE });
  const { apiKeyProd: key } = await createTestOrganization(db);
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

  const refunds = await call("GET", "/events?types=registration.refunded,donation.created", {
    key,
  });
  t.deepEqual(feed.parse(refunds.body).events, []);
  const created = await call("GET", "/events?types=registration.created", { key });
  t.is(feed.parse(created.body).events.length, 5);
});

test("the feed is the key's account's and mode's alone, and without imported and stores' records", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const [mine, other] = [await createTestOrganization(db), await createTestOrganization(db)];
  await call("POST", "/plant/trees", { key: mine.apiKeyProd, body: { count: 1 } });
  await call("POST", "/plant/trees", { key: mine.apiKeyTest, body: { count: 2 } });
  await call("POST", "/plant/trees", { key: other.apiKeyProd, body: { count: 3 } });
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, imported_id)
    VALUES (gen_random_uuid(), ${mine.id}, 'live', 'tree', 4, now(), 'old-1')
  `);
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
    t.is((await call("GET", `/events?starting_after=${event?.id}`, { key })).status, 410);
  }
});

const rejects = test.macro({
  exec: async (t: ExecutionContext<DatabaseContext>, query: string, message: RegExp) => {
    const { db } = t.context;
    const { call } = await startStandaloneApi(t, { db });
    const { apiKeyProd: key } = await createTestOrganization(db);
    const { status, body } = await call("GET", `/events?${query}`, { key });
    t.is(status, 400);
    t.regex(String(body["error"]), message);
  },
  title: (given = "") => `${given} is a 400`,
});

test("an unknown type", rejects, "types=registration.created,x", /^types: must be one or more of/u);
test("a limit of 0", rejects, "limit=0", /^limit: must be an integer of at least 1/u);
test(
  "a text that is no id of an event",
  rejects,
  "starting_after=1",
  /^starting_after: must be the id/u,
);
test(
  "an unknown parameter",
  rejects,
  "type=x",
  /accepted parameters: types, limit, starting_after/u,
);

test("after an event that the database has lost, the feed is a 410 that says what to do", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const { id: accountId, apiKeyProd: key } = await createTestOrganization(db);
  await recordEvent(db, { accountId, mode: "live" }, refunded("lost"), new Date());
  const { events } = await readBody(() => call("GET", "/events", { key }));
  await db.query(sql.typeAlias("void")`DELETE FROM event WHERE account_id = ${accountId}`);

  const { status, body } = await call("GET", `/events?starting_after=${events[0]?.id}`, { key });
  t.is(status, 410);
  t.regex(String(body["error"]), /lost when the database was restored.*without starting_after/u);
});

test("a page ends before its JSON becomes large", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const { id: accountId, apiKeyProd: key } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: { now: () => new Date() } });
  // jsonb writes each number with 301 digits.
  const metadata = { numbers: Array.from({ length: 1200 }, () => 1e300) };
  await Promise.all(
    [1, 2, 3, 4, 5].map((count) => writer.register(registrationOf(accountId, { count, metadata }))),
  );
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
