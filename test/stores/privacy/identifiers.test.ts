import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestStore, startStoreApi } from "../startStoreApi.ts";

const test = testWithDatabase();

for (const email of ["ΝΙΚΟΣ@example.gr", "İpek@example.com.tr"]) {
  test(`the records of ${email} are found by the same address`, async (t) => {
    const { db, databaseUrl } = t.context;
    const env = { DATABASE_URL: databaseUrl };
    const { post } = await startStoreApi(t, t.context);
    const store = await createTestStore(db, { balanceCents: 1000 });
    await post("/app/api/plant", store.live, { trees: 1, customer_email: email });
    const customer = [store.domain, "--customer-email", email];

    const exported = await runImpact(["store", "export-customer", ...customer], { env });
    const erased = await runImpact(["store", "forget", ...customer, "--json"], { env });

    t.like(readJson(exported), { registrations: [{ customer_email: email }] });
    t.like(readJson(erased), { registrations: 1 });
  });
}

const SHOPIFY_ORDER = "gid://shopify/Order/299938";

for (const [stored, given] of [
  [SHOPIFY_ORDER, "299938"],
  ["299938", SHOPIFY_ORDER],
] as const) {
  test(`the records of order ${stored} are found by ${given}`, async (t) => {
    const { db, databaseUrl } = t.context;
    const { post } = await startStoreApi(t, t.context);
    const store = await createTestStore(db, { balanceCents: 1000 });
    await post("/app/api/plant", store.live, { trees: 1, order_id: stored });
    await post("/app/api/plant", store.live, { trees: 2, order_id: `${stored}0` });

    const erased = await runImpact(
      ["store", "forget", store.domain, "--order-id", given, "--json"],
      { env: { DATABASE_URL: databaseUrl } },
    );

    t.like(readJson(erased), { registrations: 1 });
  });
}

test("the name of an order is not Shopify's id of another", async (t) => {
  const { db, databaseUrl } = t.context;
  const { post } = await startStoreApi(t, t.context);
  const store = await createTestStore(db, { balanceCents: 1000 });
  await post("/app/api/plant", store.live, { trees: 1, order_id: SHOPIFY_ORDER });

  const erased = await runImpact(
    ["store", "forget", store.domain, "--order-id", "#299938", "--json"],
    { env: { DATABASE_URL: databaseUrl } },
  );

  t.like(readJson(erased), { registrations: 0 });
});
