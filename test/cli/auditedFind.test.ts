import { readJson, runImpact } from "../cli/runImpact.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

test("a search that shows customers of stores adds an entry with counts for each store", async (t) => {
  const { db, databaseUrl } = t.context;
  const env = { DATABASE_URL: databaseUrl };
  const { post } = await startStoreApi(t, { db });
  const [first, second, unnamed] = [
    await createTestStore(db, { balanceCents: 1000 }),
    await createTestStore(db, { balanceCents: 1000 }),
    await createTestStore(db, { balanceCents: 1000 }),
  ];
  const customer = { customer_name: "Ann Lee", order_id: "#1001" };
  await post("/app/api/plant", first.live, { trees: 1, ...customer });
  await post("/app/api/plant", first.live, { trees: 2, ...customer });
  const donation = { charity_id: "53-0196605", amount_dollars: 1, ...customer };
  await post("/app/api/charity/donate", first.live, donation);
  await post("/app/api/plant", second.live, { trees: 1, order_id: "1001" });
  const planted = await post("/app/api/plant", unnamed.live, { trees: 1 });
  const list = async (store: { readonly id: string }) => {
    const args = ["audit", "list", "--account", store.id, "--action", "find", "--json"];
    return readJson(await runImpact(args, { env }));
  };

  const options = ["--as", "Ada", "--reason", "ticket 12"];
  const found = await runImpact(["find", "#1001", ...options], { env });
  const other = await runImpact(["find", planted.headers.get("Record-Id") ?? ""], { env });

  t.is(found.exitCode, 0, found.stderr);
  t.is(other.exitCode, 0, other.stderr);
  const entry = { action: "find", operator: "Ada", subject: null, reason: "ticket 12" };
  t.like(await list(first), [{ ...entry, details: { registrations: 2, donations: 1 } }]);
  t.like(await list(second), [{ ...entry, details: { registrations: 1, donations: 0 } }]);
  t.deepEqual(await list(unnamed), []);
});
