import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { idIn } from "../api/contract.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import type { DatabaseTest } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();

const text = z.string();
const counted = z.object({
  start: text,
  group: text.nullable(),
  is_rest: z.boolean(),
  net: z.number(),
});
const statistics = z.object({ from: text, to: text, stats: z.array(counted) });

/** Serves an organization at a time, which the test may move. */
const startAt = async (t: DatabaseTest, time: string) => {
  const { db } = t.context;
  const clock = createMovableClock(time);
  const { call, url } = await startStandaloneApi(t, { db, clock });
  const organization = await createTestOrganization(db, { clock });
  const key = organization.apiKeyProd;
  const plant = async (body: object, at = time) => {
    clock.set(at);
    return idIn((await call("POST", "/plant/trees", { key, body })).body, "tree");
  };
  const read = (query: string, byKey = key) => call("GET", `/stats?${query}`, { key: byKey });
  const readStats = async (query: string, byKey = key) =>
    statistics.parse((await read(query, byKey)).body);
  return { clock, call, url, key, organization, plant, read, readStats };
};

test("units are counted by the day of their registration, with what was refunded since", async (t) => {
  const { clock, call, key, organization, plant, read, readStats } = await startAt(
    t,
    "2026-03-01T00:00:00.000Z",
  );
  await plant({ count: 2 });
  const id = await plant({ count: 5 }, "2026-03-01T23:59:59.999Z");
  await plant({ count: 4 }, "2026-03-03T12:00:00.000Z");
  await call("POST", "/plant/trees", { key: organization.apiKeyTest, body: { count: 100 } });
  await call("POST", "/rescue/plastic_bottles", { key, body: { count: 50 } });
  await call("POST", "/refund/trees", { key, body: { id, count: 3 } });
  clock.set("2026-03-04T00:00:00.000Z");

  const { status, body } = await read("kind=tree&from=2026-03-01&to=2026-03-03");

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
  const inTestMode = await readStats("kind=tree&from=2026-03-01", organization.apiKeyTest);
  const nets = inTestMode.stats.map(({ net }) => net);
  t.deepEqual(nets, [0, 0, 100, 0]);
  t.is(inTestMode.to, "2026-03-04");
});

test("without days the last 30 days or 12 months are counted", async (t) => {
  const { readStats } = await startAt(t, "2026-03-31T12:00:00Z");

  const days = await readStats("kind=bottle");
  const months = await readStats("kind=bottle&interval=month");

  t.deepEqual([days.from, days.to, days.stats.length], ["2026-03-02", "2026-03-31", 30]);
  t.deepEqual([months.from, months.to, months.stats.length], ["2025-04-01", "2026-03-31", 12]);
  t.deepEqual([months.stats[0]?.start, months.stats[11]?.start], ["2025-04-01", "2026-03-01"]);
});

test("groups are attributions or values of metadata, and those that have least are summed up", async (t) => {
  const { call, key, plant, readStats } = await startAt(t, "2026-03-01T12:00:00Z");
  for (const [count, name] of [
    [5, "b"],
    [5, "a"],
    [1, "c"],
  ] as const) {
    await plant({ count, attribution: name, metadata: { "a.b": name } });
  }
  await plant({ count: 9 });
  await plant({ count: 7, metadata: { "a.b": 12, long: "x".repeat(1001) } });
  const items = Array.from({ length: 30 }, (_, index) => ({
    count: 1,
    metadata: { order: `order-${index}` },
  }));
  await call("POST", "/plant/trees/batch", { key, body: { items } });
  const groupsOf = async (groupBy: string) => {
    const days = "from=2026-03-01&to=2026-03-01";
    const { stats } = await readStats(`kind=tree&${days}&group_by=${groupBy}`);
    return stats.map(({ group, is_rest: isRest, net }) => [group, isRest, net]);
  };

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
    ["x".repeat(1000), false, 7],
  ]);
});

test("donations are counted with their cents", async (t) => {
  const { organization, read } = await startAt(t, "2026-03-01T12:00:00Z");
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO donation
      (id, account_id, mode, amount_cents, nonprofit_id, charity_provider, charity_name, created_at, refunded)
    SELECT gen_random_uuid(), ${organization.id}, 'test', cents, 'x', 'catalogue', 'X', '2026-03-01T10:00:00Z', cents = 250
    FROM unnest(ARRAY[100, 250, 700]) AS cents
  `);

  const days = "kind=donation&from=2026-03-01&to=2026-03-02";
  const { body } = await read(days, organization.apiKeyTest);

  const cents = { registered_cents: 1050, refunded_cents: 250, net_cents: 800 };
  t.like(body["stats"], [
    { start: "2026-03-01", registered: 3, refunded: 1, net: 2, ...cents },
    { start: "2026-03-02", registered: 0, net: 0, registered_cents: 0, net_cents: 0 },
  ]);
});

test("statistics are also a CSV file", async (t) => {
  const { url, key, plant } = await startAt(t, "2026-03-01T12:00:00Z");
  await plant({ count: 3, attribution: "=1+1" });

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

test("requests that cannot be counted are refused, and the edges of the calendar are counted", async (t) => {
  const { read } = await startAt(t, "2026-03-31T12:00:00Z");
  for (const [query, error] of [
    ["", "kind: required"],
    ["kind=car", "kind: must be one of tree, bottle, donation"],
    ["kind=tree&interval=week", "interval: must be one of day, month"],
    ["kind=tree&group_by=metadata.", "group_by: must be attribution or metadata.KEY"],
    [
      "kind=tree&from=2025-03-30&to=2026-03-31",
      "from: with the interval day, at most 366 days can be counted in one request",
    ],
  ] as const) {
    t.like(await read(query), { status: 400, body: { error } });
  }
  for (const days of [
    "from=0001-01-01&to=0001-01-31",
    "from=9999-12-01&to=9999-12-31",
    "from=9999-12-31",
    "to=0001-01-02",
  ]) {
    for (const interval of ["day", "month"]) {
      const { status } = await read(`kind=tree&${days}&interval=${interval}`);
      t.is(status, 200, `${days} ${interval}`);
    }
  }
});
