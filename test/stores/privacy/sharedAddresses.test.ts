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
    /** Customer 2 uses the shared address, in test mode for a donation only. */
    share: async (mode: "live" | "test" | null) => {
      if (mode === "live") {
        await plant("2, shared", shareWithTwo);
      } else if (mode === "test") {
        const donation = { charity_id: "53-0196605", amount_dollars: 1, ...shareWithTwo };
        await post("/app/api/charity/donate", store.test, donation);
      }
    },
    forget: (...options: readonly string[]) => run("forget", ...options),
    listExported: async (...options: readonly string[]) => {
      const exported = customerExport.parse(readJson(await run("export-customer", ...options)));
      return exported.registrations.map(({ notes }) => notes);
    },
    listLeft: async () => {
      const { body } = await get("/app/api/plant?limit=100", store.live);
      return rowsIn(body, "trees").flatMap(({ notes }) => (notes === "" ? [] : String(notes)));
    },
  };
};

/** Which mode customer 2 has used the shared address in, how a customer is named, and whose records are left. */
const CASES: readonly (readonly [string, "live" | "test" | null, string, readonly string[]])[] = [
  [
    "an address that several customers share leads to none of them",
    "live",
    `--customer-email ${SHARED}`,
    ["2", "ann", "ann, own", "1, own"],
  ],
  [
    "a customer's id does not lead to an address that another id has",
    "live",
    "--customer-id 1",
    ["2, shared", "bob", "2", "shared"],
  ],
  [
    "a customer's id does not lead to an address that another id has in a test donation only",
    "test",
    "--customer-id 1",
    ["bob", "2", "shared"],
  ],
  [
    "a customer's id leads to an address that no other id has",
    null,
    "--customer-id 1",
    ["bob", "2"],
  ],
  [
    "a given address does not lead to another id than the given one",
    null,
    "--customer-id 2 --customer-email ann@example.com",
    ["shared", "1, shared"],
  ],
];
for (const [title, sharedIn, named, left] of CASES) {
  test.serial(title, async (t) => {
    const { share, forget, listExported, listLeft } = await createSharingStore(t);
    await share(sharedIn);
    const before = await listLeft();

    const exported = await listExported(...named.split(" "));
    await forget(...named.split(" "));

    t.deepEqual(await listLeft(), left);
    t.deepEqual(
      exported,
      before.filter((notes) => !left.includes(notes)),
    );
  });
}

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
