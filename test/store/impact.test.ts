import { testWithDatabase } from "../support/database.ts";
import { createTestStore, startStoreApi } from "./startStoreApi.ts";

const test = testWithDatabase();

test("a planting is answered with what was asked for, listed, counted and paid for", async (t) => {
  const { get, post } = await startStoreApi(t, t.context);
  const store = await createTestStore(t.context.db, { balanceCents: 1000 });

  const planted = await post("/app/api/plant", store.live, {
    trees: 3,
    customer_name: "Ann Lee",
    order_id: "#1001",
    notes: "loyalty",
    customer_email: "Ann@Example.com",
    customer_id: 7701,
  });

  t.is(planted.status, 200);
  t.deepEqual(planted.body, {
    status: "success",
    trees_planted: 3,
    customer_name: "Ann Lee",
    order_id: "#1001",
  });
  const { body: list } = await get("/app/api/plant", store.live);
  t.like(list, { count: 1, has_more: false, next_cursor: "" });
  const { body: balance } = await get("/app/api/balance", store.live);
  t.like(balance, { balance_cents: 850 });
  const { body: stats } = await get("/app/api/impact/stats", store.live);
  t.deepEqual(stats, {
    trees: 3,
    plastic_bottles: 0,
    donations: 0,
    co2_kg: 600,
    customer_scoped: false,
  });
});
