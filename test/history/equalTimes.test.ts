import type { ExecutionContext } from "ava";
import { createTestStore, rowsIn, startStoreApi } from "../stores/startStoreApi.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { importForStore, summaryOf } from "./importScene.ts";

const test = testWithDatabase();

const AT = "2024-05-01T08:00:00Z";
const SAME_TIME = 1203;

const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const { db } = t.context;
  const clock = createMovableClock("2024-05-01T08:00:00.000Z");
  const api = await startStoreApi(t, { db, clock });
  const store = await createTestStore(db, { balanceCents: 1000 });
  return {
    api,
    store,
    readTrees: async () => {
      const trees: { readonly id: unknown; readonly createdAt: string }[] = [];
      let cursor = "";
      do {
        const query = `limit=100&after_created_at=${encodeURIComponent(cursor)}`;
        const { body } = await api.get(`/app/api/plant?${query}`, store.live);
        for (const { id, created_at } of rowsIn(body, "trees")) {
          trees.push({ id, createdAt: String(created_at) });
        }
        cursor = String(body["next_cursor"]);
      } while (cursor !== "");
      return trees.toReversed();
    },
  };
};

const tree = (id: string, created_at: string) => ({
  kind: "tree",
  id,
  count: 1,
  created_at,
  unit_price_cents: 50,
});

test("imported records of a store with equal times become unique in the order of the file, whenever it is imported", async (t) => {
  const { store, readTrees } = await setUp(t);
  const lines = Array.from({ length: SAME_TIME }, (_, index) => tree(`t-${index}`, AT));
  const others = [
    tree("later", "2024-05-01T08:00:00.001Z"),
    tree("exact", "2024-05-01T08:00:01.000007Z"),
  ];
  const all = [...lines, ...others];

  const interrupted = await importForStore(t, store.domain, lines.slice(0, 700));
  t.is(summaryOf(interrupted).new, 700);
  const first = summaryOf(await importForStore(t, store.domain, all));
  t.like(first, { new: all.length - 700, known: 700, conflict: 0, bad: 0 });
  const trees = await readTrees();
  const again = summaryOf(await importForStore(t, store.domain, all));
  t.like(again, { new: 0, known: all.length, conflict: 0, bad: 0 });
  t.deepEqual(await readTrees(), trees);

  t.is(new Set(trees.map(({ createdAt }) => createdAt)).size, all.length);
  t.deepEqual(
    trees.slice(0, SAME_TIME).map(({ id }) => id),
    lines.map(({ id }) => id),
  );
  t.is(trees[1]?.createdAt, "2024-05-01T08:00:00.000001Z");
  t.is(trees[SAME_TIME - 1]?.createdAt, "2024-05-01T08:00:00.001202Z");
  t.deepEqual(trees.slice(SAME_TIME), [
    { id: "later", createdAt: "2024-05-01T08:00:00.001203Z" },
    { id: "exact", createdAt: "2024-05-01T08:00:01.000007Z" },
  ]);
});

test("an imported record of a store has another time than those that the store wrote before and writes later", async (t) => {
  const { api, store, readTrees } = await setUp(t);
  const write = () => api.post("/app/api/plant", store.live, { trees: 1 });
  await importForStore(t, store.domain, [tree("before", AT)]);
  t.is((await write()).status, 200);
  await importForStore(t, store.domain, [tree("after", AT)]);
  t.is((await write()).status, 200);

  const times = (await readTrees()).map(({ createdAt }) => createdAt);
  t.deepEqual(
    times,
    [0, 1, 2, 3].map((microsecond) => `2024-05-01T08:00:00.00000${microsecond}Z`),
  );
});
