import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { rowsIn, startStoreApiOf } from "../startStoreApi.ts";

const test = testWithDatabase();

const customerExport = z.looseObject({
  registrations: z.array(z.looseObject({ notes: z.string().nullable() })),
});

const SHARED = "Orders@Shop.example";

/** Returns a store where customers 1 and 2 share an address and have one of their own, and functions that use it. */
const createSharingStore = async (t: ExecutionContext<DatabaseContext>) => {
  const { databaseUrl } = t.context;
  const { post, get, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const plant = (notes: string, customer: Readonly<Record<string, string>>) =>
    post("/app/api/plant", store.live, { trees: 1, notes, ...customer });
  await plant("1, shared", { customer_id: "1", customer_email: SHARED });
  await plant("1, own", { customer_id: "1", customer_email: "ann@example.com" });
  await plant("ann, own", { customer_name: "Ann Lee", customer_email: "Ann@example.com" });
  await plant("ann", { customer_name: "ann lee" });
  await plant("shared", { customer_name: "Shop", customer_email: SHARED });
  await plant("2", { customer_id: "2", customer_name: "Bob Hill" });
  await plant("bob", { customer_name: "Bob Hill" });
  const shareWithTwo = { customer_id: "2", customer_name: "Bob Hill", customer_email: SHARED };
  const run = async (command: string, ...options: readonly string[]) => {
    const args = ["store", command, store.domain, ...options];
    const ended = await runImpact(args, { env: { DATABASE_URL: databaseUrl } });
    t.is(ended.exitCode, 0, ended.stderr);
    return ended;
  };
  return {
    store,
    plant,
    shareInTestMode: () =>
      post("/app/api/charity/donate", store.test, {
        charity_id: "53-0196605",
        amount_dollars: 1,
        ...shareWithTwo,
      }),
    shareWithTwo,
    forget: (...options: readonly string[]) => run("forget", ...options),
    listExported: async (...options: readonly string[]) => {
      const exported = customerExport.parse(readJson(await run("export-customer", ...options)));
      return exported.registrations.map(({ notes }) => notes);
    },
    listLeft: async () => {
      const { body } = await get("/app/api/plant?limit=100", store.live);
      return rowsIn(body, "trees").flatMap(({ notes }) => (notes === "" ? [] : [notes]));
    },
  };
};

test.serial("an address that several customers share leads to none of them", async (t) => {
  const { plant, shareWithTwo, forget, listLeft } = await createSharingStore(t);
  await plant("2, shared", shareWithTwo);

  await forget("--customer-email", SHARED);

  t.deepEqual(await listLeft(), ["2", "ann", "ann, own", "1, own"]);
});

test.serial("a customer's id does not lead to an address that another id has", async (t) => {
  const { plant, shareWithTwo, forget, listExported, listLeft } = await createSharingStore(t);
  await plant("2, shared", shareWithTwo);

  t.deepEqual(await listExported("--customer-id", "1"), ["ann", "ann, own", "1, own", "1, shared"]);
  await forget("--customer-id", "1");

  t.deepEqual(await listLeft(), ["2, shared", "bob", "2", "shared"]);
});

test.serial(
  "a customer's id does not lead to an address that another id has in a test donation only",
  async (t) => {
    const { shareInTestMode, forget, listLeft } = await createSharingStore(t);
    await shareInTestMode();

    await forget("--customer-id", "1");

    t.deepEqual(await listLeft(), ["bob", "2", "shared"]);
  },
);

test.serial("a customer's id leads to an address that no other id has", async (t) => {
  const { forget, listLeft } = await createSharingStore(t);

  await forget("--customer-id", "1");

  t.deepEqual(await listLeft(), ["bob", "2"]);
});

test.serial("a given address does not lead to another id than the given one", async (t) => {
  const { forget, listLeft } = await createSharingStore(t);

  await forget("--customer-id", "2", "--customer-email", "ann@example.com");

  t.deepEqual(await listLeft(), ["shared", "1, shared"]);
});

test.serial("an address with more records than a person has is shared", async (t) => {
  const { store, forget, listLeft } = await createSharingStore(t);
  await t.context.owner.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, customer_email, unit_price_cents)
    SELECT gen_random_uuid(), ${store.id}, 'test', 'tree', 1, now(), ${SHARED}, 0
    FROM generate_series(1, 10000)
  `);

  await forget("--customer-id", "1");

  t.deepEqual(await listLeft(), ["bob", "2", "shared"]);
});
