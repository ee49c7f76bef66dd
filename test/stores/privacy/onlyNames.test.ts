import { z } from "zod";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestStore, startStoreApi } from "../startStoreApi.ts";

const test = testWithDatabase();

test("a record with an order and only a name is exported and counted once", async (t) => {
  const { db, databaseUrl } = t.context;
  const env = { DATABASE_URL: databaseUrl };
  const { post } = await startStoreApi(t, t.context);
  const store = await createTestStore(db, { balanceCents: 1000 });
  const customer = { customer_name: "Ann Lee" };
  await post("/app/api/plant", store.live, { trees: 1, ...customer, order_id: "#1001" });
  await post("/app/api/plant", store.live, { trees: 2, ...customer, order_id: "#1002" });
  await post("/app/api/plastic", store.live, { bottles: 3, ...customer });
  const order = [store.domain, "--order-id", "1001"];

  const exported = await runImpact(["store", "export-customer", ...order], { env });
  const planned = await runImpact(["store", "forget", ...order, "--dry-run", "--json"], { env });
  const erased = await runImpact(["store", "forget", ...order, "--json"], { env });

  const { registrations } = z
    .looseObject({ registrations: z.array(z.looseObject({ count: z.int() })) })
    .parse(readJson(exported));
  t.deepEqual(
    registrations.map(({ count }) => count).toSorted((a, b) => a - b),
    [1, 2, 3],
  );
  t.like(readJson(planned), { registrations: 3 });
  t.like(readJson(erased), { registrations: 3 });
});
