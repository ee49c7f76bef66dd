import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { idIn } from "../api/contract.ts";
import type { ApiResponse, Call } from "../api/startStandaloneApi.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();

const statistics = z.object({
  from: z.string(),
  to: z.string(),
  stats: z.array(
    z.object({
      start: z.string(),
      group: z.string().nullable(),
      is_rest: z.boolean(),
      registered: z.number(),
      refunded: z.number(),
      net: z.number(),
      net_cents: z.number().optional(),
    }),
  ),
});

const statsIn = ({ body }: ApiResponse) => statistics.parse(body);

/** Returns the intervals that have records, with what is left of those. */
const netsIn = (response: ApiResponse) =>
  statsIn(response).stats.flatMap(({ start, net }) => (net === 0 ? [] : [[start, net]]));

const plant = (call: Call, key: string, body: object) =>
  call("POST", "/plant/trees", { key, body });

/** Serves an organization at times that the test sets. */
const startAt = async (
  t: Parameters<typeof startStandaloneApi>[0],
  db: DatabasePool,
  time: string,
) => {
  const clock = createMovableClock(time);
  const { call, url } = await startStandaloneApi(t, { db, clock });
  const organization = await createTestOrganization(db, { clock });
  const plantAt = async (at: string, count: number, body: object = {}) => {
    clock.set(at);
    return idIn((await plant(call, organization.apiKeyProd, { count, ...body })).body, "tree");
  };
  return { clock, call, url, key: organization.apiKeyProd, organization, plantAt };
};

test("units are counted by the day of their registration, with what was refunded since", async (t) => {
  const { db } = t.context;
  const { clock, call, key, organization, plantAt } = await startAt(t, db, "2026-03-01T00:00:00Z");
  await plantAt("2026-03-01T00:00:00.000Z", 2);
  const id = await plantAt("2026-03-01T23:59:59.999Z", 5);
  await plantAt("2026-03-03T12:00:00.000Z", 4);
  await call("POST", "/plant/trees", { key: organization.apiKeyTest, body: { count: 100 } });
  await call("POST", "/rescue/plastic_bottles", { key, body: { count: 50 } });
  await call("POST", "/refund/trees", { key, body: { id, count: 3 } });
  clock.set("2026-03-04T00:00:00.000Z");

  const { status, body } = await call("GET", "/stats?kind=tree&from=2026-03-01&to=2026-03-03", {
    key,
  });
  const inTestMode = await call("GET", "/stats?kind=tree&from=2026-03-01", {
    key: organization.apiKeyTest,
  });

  t.is(status, 200);
  const row = { group: null, is_rest: false };
  t.deepEqual(body, {
    kind: "tree",
    interval: "day",
    from: "2026-03-01",
    to: "2026-03-03",
    stats: [
      { start: "2026-03-01", ...row, registered: 7, refunded: 3, net: 4 },
      { start: "2026-03-02", ...row, registered: 0, refunded: 0, net: 0 },
      { start: "2026-03-03", ...row, registered: 4, refunded: 0, net: 4 },
    ],
  });
  t.deepEqual(netsIn(inTestMode), [["2026-03-03", 100]]);
  t.is(statsIn(inTestMode).to, "2026-03-04");
});

test("without days the last 30 days or 12 months are counted", async (t) => {
  const { call, key } = await startAt(t, t.context.db, "2026-03-31T12:00:00Z");

  const days = statsIn(await call("GET", "/stats?kind=bottle", { key }));
  const months = statsIn(await call("GET", "/stats?kind=bottle&interval=month", { key }));

  t.deepEqual([days.from, days.to, days.stats.length], ["2026-03-02", "2026-03-31", 30]);
  t.deepEqual([months.from, months.to], ["2025-04-01", "2026-03-31"]);
  t.deepEqual(
    months.stats.map(({ start }) => start.slice(0, 7)),
    [4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3].map(
      (month) => `${month < 4 ? 2026 : 2025}-${String(month).padStart(2, "0")}`,
    ),
  );
});

test("groups are attributions or values of metadata, and those that have least are summed up", async (t) => {
  const { db } = t.context;
  const { call, key } = await startAt(t, db, "2026-03-01T12:00:00Z");
  for (const [count, name] of [
    [5, "b"],
    [5, "a"],
    [9, undefined],
    [1, "c"],
  ] as const) {
    await plant(call, key, {
      count,
      ...(name === undefined ? {} : { attribution: name, metadata: { "a.b": name } }),
    });
  }
  await plant(call, key, { count: 7, metadata: { "a.b": 12, long: "x".repeat(1001) } });
  const items = Array.from({ length: 30 }, (_, index) => ({
    count: 1,
    metadata: { order: `order-${index}` },
  }));
  await call("POST", "/plant/trees/batch", { key, body: { items } });
  const groupsOf = async (groupBy: string) =>
    statsIn(
      await call("GET", `/stats?kind=tree&from=2026-03-01&to=2026-03-01&group_by=${groupBy}`, {
        key,
      }),
    ).stats.map(({ group, is_rest: isRest, net }) => [group, isRest, net]);

  t.deepEqual(await groupsOf("attribution"), [
    [null, false, 46],
    ["a", false, 5],
    ["b", false, 5],
    ["c", false, 1],
  ]);
  t.deepEqual(await groupsOf("metadata.a.b"), [
    [null, false, 39],
    ["12", false, 7],
    ["a", false, 5],
    ["b", false, 5],
    ["c", false, 1],
  ]);
  const orders = await groupsOf("metadata.order");
  t.is(orders.length, 21);
  t.deepEqual(orders[0], [null, false, 27]);
  t.deepEqual(orders[1], ["order-0", false, 1]);
  t.deepEqual(orders.at(-1), [null, true, 11]);
  t.deepEqual(await groupsOf("metadata.long"), [
    [null, false, 50],
    [null, true, 7],
  ]);
});

test("donations are counted with their cents", async (t) => {
  const { db } = t.context;
  const { call, organization } = await startAt(t, db, "2026-03-01T12:00:00Z");
  const key = organization.apiKeyTest;
  await db.query(sql.typeAlias("void")`
    INSERT INTO donation
      (id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, created_at, attribution, metadata, refunded)
    SELECT
      gen_random_uuid(), ${organization.id}, 'test', cents, NULL, 'x', 'catalogue', 'X', '2026-03-01T10:00:00Z', '', '{}',
      cents = 250
    FROM unnest(ARRAY[100, 250, 700]) AS cents
  `);

  const { body } = await call("GET", "/stats?kind=donation&from=2026-03-01&to=2026-03-01", { key });

  t.deepEqual(body["stats"], [
    {
      start: "2026-03-01",
      group: null,
      is_rest: false,
      registered: 3,
      refunded: 1,
      net: 2,
      registered_cents: 1050,
      refunded_cents: 250,
      net_cents: 800,
    },
  ]);
});

test("statistics are also a CSV file", async (t) => {
  const { url, key, plantAt } = await startAt(t, t.context.db, "2026-03-01T12:00:00Z");
  await plantAt("2026-03-01T12:00:00.000Z", 3, { attribution: "=1+1" });

  const response = await fetch(
    `${url}/stats?kind=tree&from=2026-03-01&to=2026-03-01&group_by=attribution`,
    { headers: { authorization: key, accept: "text/csv" } },
  );

  t.is(
    await response.text(),
    "start,group,is_rest,registered,refunded,net,registered_cents,refunded_cents,net_cents\r\n" +
      "2026-03-01,'=1+1,false,3,0,3,,,\r\n",
  );
});

const refuses = test.macro(async (t, query: string, message: string) => {
  const { call, key } = await startAt(t, t.context.db, "2026-03-31T12:00:00Z");

  const { status, body } = await call("GET", `/stats?${query}`, { key });

  t.is(status, 400);
  t.is(body["error"], message);
});
test("statistics without a kind are refused", refuses, "", "kind: required");
test(
  "an unknown kind is refused",
  refuses,
  "kind=car",
  "kind: must be one of tree, bottle, donation",
);
test(
  "an unknown interval is refused",
  refuses,
  "kind=tree&interval=week",
  "interval: must be one of day, month",
);
test(
  "other groups are refused",
  refuses,
  "kind=tree&group_by=metadata.",
  "group_by: must be attribution or metadata.KEY",
);
test(
  "too many days are refused",
  refuses,
  "kind=tree&from=2025-03-30&to=2026-03-31",
  "from: with the interval day, at most 366 days can be counted in one request",
);

test("the edges of the calendar are counted", async (t) => {
  const { call, key } = await startAt(t, t.context.db, "2026-03-31T12:00:00Z");
  for (const days of [
    "from=0001-01-01&to=0001-01-31",
    "from=9999-12-01&to=9999-12-31",
    "from=9999-12-31",
    "to=0001-01-02",
  ]) {
    for (const interval of ["day", "month"]) {
      const { status } = await call("GET", `/stats?kind=tree&${days}&interval=${interval}`, {
        key,
      });
      t.is(status, 200, `${days} ${interval}`);
    }
  }
});
