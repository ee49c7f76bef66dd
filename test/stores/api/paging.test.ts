import { readTotals } from "../../../modules/registrations/totals.sql.ts";
import { setTimeout as sleep } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import { systemClock } from "../../../runtime/clock.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { openTestPool, testWithDatabase } from "../../support/database.ts";
import type { StoreApi, TestStore } from "../startStoreApi.ts";
import { createTestStore, rowsIn, startStoreApi, startStoreApiOf } from "../startStoreApi.ts";

const test = testWithDatabase().serial;

const LISTS = [
  { path: "/app/api/plant", rows: "trees", write: { path: "/app/api/plant", trees: 1 } },
  {
    path: "/app/api/charity/donations",
    rows: "donations",
    write: { path: "/app/api/charity/donate", charity_id: "53-0196605", amount: 0.01 },
  },
] as const;

type Page = { readonly next_cursor: string; readonly created_at: string };

/** Shifts the hour of a timestamp in UTC to that of a zone two hours ahead. */
const inOtherZone = (time: string): string => {
  const local = new Date(new Date(time).getTime() + 2 * 3_600_000).toISOString();
  return `${local.slice(0, 23)}${time.slice(23, 26)}+02:00`;
};

/** What a client may send for the next page. */
const CURSORS: Readonly<Record<string, (page: Page) => string>> = {
  next_cursor: ({ next_cursor }) => next_cursor,
  "the last row's created_at": ({ created_at }) => created_at,
  "created_at with another offset": ({ created_at }) => inOtherZone(created_at),
  "created_at with more digits": ({ created_at }) => created_at.replace("Z", "000Z"),
};

/** Follows a list to its end, and returns the orders and times of its rows. */
const readAll = async (
  t: ExecutionContext,
  api: StoreApi,
  headers: TestStore["live"],
  { path, rows }: (typeof LISTS)[number],
  { limit, cursorOf }: { readonly limit: number; readonly cursorOf: (page: Page) => string },
) => {
  const all: { readonly order: string; readonly createdAt: string }[] = [];
  let cursor = "";
  let hasMore = true;
  while (hasMore) {
    const query = `limit=${limit}&after_created_at=${encodeURIComponent(cursor)}`;
    const { status, body } = await api.get(`${path}?${query}`, headers);
    t.is(status, 200);
    const page = rowsIn(body, rows).map(({ order_id, created_at }) => ({
      order: String(order_id),
      createdAt: String(created_at),
    }));
    all.push(...page);
    hasMore = body["has_more"] === true;
    const last = page.at(-1)?.createdAt ?? "";
    t.is(body["next_cursor"], hasMore ? last : "");
    if (hasMore) {
      cursor = cursorOf({ next_cursor: String(body["next_cursor"]), created_at: last });
    }
  }
  return all;
};

/** Starts four processes' apps whose clocks differ. */
const startFour = async (t: DatabaseTest): Promise<readonly StoreApi[]> => {
  const apis: StoreApi[] = [];
  for (const offsetMs of [0, 0, -3000, 40]) {
    const db = await openTestPool(t, t.context.databaseUrl, 4);
    const clock = { now: () => new Date(systemClock.now().getTime() + offsetMs) };
    apis.push(await startStoreApi(t, { db, clock }));
  }
  return apis;
};

const BURSTS = 3;
const BURST_WRITES = 10;

for (const list of LISTS) {
  test(`${list.path} shows every record once while four processes write, whichever timestamp leads to the next page`, async (t) => {
    const apis = await startFour(t);
    const store = await createTestStore(t.context.db, { balanceCents: 1_000_000 });
    const written = new Set<string>();
    const writing = new AbortController();

    const write = async (process: number, burst: number) => {
      const api = apis[process] ?? apis[0];
      await Promise.all(
        Array.from({ length: BURST_WRITES }, async (_, index) => {
          const { path, ...body } = list.write;
          const order_id = `${process}-${burst}-${index}`;
          // Keys that two writes of a burst share are decided one by one.
          const key = { "Idempotency-Key": `${process}-${burst}-${index}` };
          const headers = index % 3 === 0 ? { ...store.live, ...key } : store.live;
          const response = await api?.post(path, headers, { ...body, order_id });
          t.is(response?.status, 200, response?.text);
          written.add(order_id);
        }),
      );
    };
    const writers = Promise.all(
      apis.map(async (_, process) => {
        for (let burst = 0; burst < BURSTS; burst += 1) {
          await write(process, burst);
        }
      }),
    ).finally(() => writing.abort());
    const readers = Object.entries(CURSORS).map(async ([name, cursorOf], index) => {
      do {
        for (const limit of [7, 20]) {
          const before = new Set(written);
          const api = apis[index % apis.length] ?? apis[0];
          const seen = api ? await readAll(t, api, store.live, list, { limit, cursorOf }) : [];
          const orders = seen.map(({ order }) => order);
          t.is(new Set(orders).size, orders.length, `${name}: no row twice`);
          const missing = [...before].filter((order) => !orders.includes(order));
          t.deepEqual(missing, [], `${name}: no row missing`);
          const times = seen.map(({ createdAt }) => createdAt);
          t.true(times.every((time) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/u.test(time)));
          t.deepEqual(times, [...new Set(times)].toSorted().toReversed(), name);
        }
        await sleep(5);
      } while (!writing.signal.aborted);
    });
    await Promise.all([writers, ...readers]);

    t.is(written.size, apis.length * BURSTS * BURST_WRITES);
    const [api] = apis;
    for (const cursorOf of Object.values(CURSORS)) {
      const seen = api ? await readAll(t, api, store.live, list, { limit: 20, cursorOf }) : [];
      t.is(seen.length, written.size);
    }
  });
}

test("a record follows the earlier ones if the clock was set back to another month, counts in theirs, and can be reversed", async (t) => {
  const clock = createMovableClock("2026-04-01T00:00:00.000Z");
  const given = { clock, store: { balanceCents: 1000 } };
  const { db, store, ...api } = await startStoreApiOf(t, given);
  for (const time of ["2026-04-01T00:00:00.000Z", "2026-03-31T23:00:00.000Z"]) {
    clock.set(time);
    t.is((await api.post("/app/api/plant", store.live, { trees: 3 })).status, 200);
    t.is((await api.post("/app/api/plant", store.test, { trees: 1 })).status, 200);
  }
  const donation = { charity_id: "53-0196605", amount: 0.5 };
  t.is((await api.post("/app/api/charity/donate", store.live, donation)).status, 200);

  for (const [path, rows, headers, microseconds] of [
    ["/app/api/plant", "trees", store.live, [2, 0]],
    ["/app/api/plant", "trees", store.test, [3, 1]],
    ["/app/api/charity/donations", "donations", store.live, [4]],
    ["/app/api/balance?limit=3", "entries", store.live, [4, 2, 0]],
  ] as const) {
    const { body } = await api.get(path, headers);
    const times = rowsIn(body, rows).map(({ created_at }) => created_at);
    const expected = microseconds.map((digit) => `2026-04-01T00:00:00.00000${digit}Z`);
    t.deepEqual(times, expected);
  }
  const owner = { accountId: store.id, mode: "live", kind: "tree" } as const;
  t.deepEqual(await readTotals(db, owner, new Date("2026-04-01")), { all: 6, month: 6 });
  for (const [type, quantity] of [
    ["tree", 6],
    ["donation", 1],
  ] as const) {
    const { status, text } = await api.post("/app/api/refund", store.live, { type, quantity });
    t.is(status, 200, text);
  }
  t.like((await api.get("/app/api/impact/stats", store.live)).body, { trees: 0, donations: 0 });
  t.deepEqual(await readTotals(db, owner, new Date("2026-04-01")), { all: 0, month: 0 });
});
