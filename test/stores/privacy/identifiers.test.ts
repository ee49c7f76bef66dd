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
