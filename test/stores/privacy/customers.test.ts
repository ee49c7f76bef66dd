import { z } from "zod";
import { readJson, impactOf } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { createTestStore, rowsIn, startStoreApiOf } from "../startStoreApi.ts";
import type { StoreApi } from "../startStoreApi.ts";
import { sql } from "../../../db/sql.ts";

const test = testWithDatabase();

test("a record with an order and only a name is exported and erased once", async (t) => {
  const impact = impactOf(t);
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const customer = { customer_name: "Ann Lee" };
  await post("/app/api/plant", store.live, { trees: 1, ...customer, order_id: "#1001" });
  await post("/app/api/plant", store.live, { trees: 2, ...customer, order_id: "#1002" });
  await post("/app/api/plastic", store.live, { bottles: 3, ...customer });
  const order = [store.domain, "--order-id", "1001"];

  const exported = await impact("store", "export-customer", ...order);
  const erased = await impact.json("store", "forget", ...order);

  const { registrations } = z
    .looseObject({ registrations: z.array(z.looseObject({ count: z.int() })) })
    .parse(readJson(exported));
  const counts = registrations.map(({ count }) => count).toSorted((a, b) => a - b);
  t.deepEqual(counts, [1, 2, 3]);
  t.like(erased, { registrations: 3 });
});

for (const [stored, given] of [
  ["NFC", "NFD"],
  ["NFD", "NFC"],
] as const) {
  test(`a customer recorded in ${stored} is found, refunded and erased in ${given}`, async (t) => {
    const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
    const [customer_name, customer_email, customer_id, order_id] = [
      "Zoë Åström",
      "Zoë.Åström@example.com",
      "kund-ö",
      "#Å-1",
    ].map((text) => text.normalize(stored));
    const [sameName = "", sameEmail = "", sameId = "", sameOrder = ""] = [
      "ZOË ÅSTRÖM",
      "ZOË.ÅSTRÖM@EXAMPLE.COM",
      "kund-ö",
      "Å-1",
    ].map((text) => text.normalize(given));
    await post("/app/api/plant", store.live, { trees: 2, customer_name, customer_email });
    await post("/app/api/plant", store.live, { trees: 1, customer_name });
    await post("/app/api/plant", store.live, { trees: 4, customer_id, order_id });

    for (const [parameter, text, count] of [
      ["customer_name", sameName, 2],
      ["customer_name", sameName.split(" ")[1] ?? "", 2],
      ["customer_email", sameEmail, 1],
      ["customer", sameEmail, 1],
      ["customer_id", sameId, 1],
      ["order_id", sameOrder, 1],
    ] as const) {
      const query = new URLSearchParams({ [parameter]: text });
      const { body } = await get(`/app/api/plant?${query.toString()}`, store.live);
      t.is(body["count"], count, parameter);
      // As it was sent.
      const [tree] = rowsIn(body, "trees");
      t.is(tree?.["customer_name"], text === sameId || text === sameOrder ? "" : customer_name);
    }
    const refund = { type: "tree", quantity: 3, customer_name: sameName };
    t.is((await post("/app/api/refund", store.live, refund)).status, 200);
    for (const [option, text, registrations] of [
      // The second record has only the name.
      ["--customer-email", sameEmail, 2],
      ["--customer-id", sameId, 1],
    ] as const) {
      const forget = ["store", "forget", store.domain, option, text, "--json"];
      t.like(readJson(await impactOf(t)(...forget)), { registrations });
    }
  });
}

const SHOPIFY_ORDER = "gid://shopify/Order/299938";

/** What a record has, how its customer is named, and whether the record is the customer's. */
const NAMED: readonly (readonly [object, readonly string[], boolean])[] = [
  ...["ΝΙΚΟΣ@example.gr", "İpek@example.com.tr"].map(
    (email) => [{ customer_email: email }, ["--customer-email", email], true] as const,
  ),
  [{ order_id: SHOPIFY_ORDER }, ["--order-id", "299938"], true],
  [{ order_id: "299938" }, ["--order-id", SHOPIFY_ORDER], true],
  [{ order_id: `${SHOPIFY_ORDER}0` }, ["--order-id", "299938"], false],
  // The name of an order is not Shopify's id of another.
  [{ order_id: SHOPIFY_ORDER }, ["--order-id", "#299938"], false],
];

test("a customer is exported and erased by the same address in any script, and by either form of an order's id", async (t) => {
  const impact = impactOf(t);
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  for (const [fields, named, isFound] of NAMED) {
    t.is((await post("/app/api/plant", store.live, { trees: 1, ...fields })).status, 200);

    const exported = await impact("store", "export-customer", store.domain, ...named);
    const erased = await impact.json("store", "forget", store.domain, ...named);

    t.like(readJson(exported), { registrations: isFound ? [fields] : [] }, named.join(" "));
    t.like(erased, { registrations: isFound ? 1 : 0 }, named.join(" "));
    await impact("store", "forget", store.domain, "--all-customers", "--yes");
  }
});

const EMAIL = "orders@shop.example";

test("all names of a customer are erased, in any case, and no similar ones", async (t) => {
  const { db, owner } = t.context;
  const store = await createTestStore(db);
  const names = ["élodie 100%_1", ...Array.from({ length: 1100 }, (_, index) => `name ${index}`)];
  // One with an address and one without for each name, and one of another customer.
  await owner.query(sql.typeAlias("void")`
    INSERT INTO registration
      (id, account_id, mode, kind, count, created_at, customer_name, customer_email, unit_price_cents)
    SELECT gen_random_uuid(), ${store.id}, 'live', 'tree', 1, now(), given.name, given.email, 0
    FROM (
      SELECT name, ${EMAIL} FROM unnest(${sql.array(names, "text")}) AS name
      UNION ALL
      SELECT upper(name), NULL FROM unnest(${sql.array(names, "text")}) AS name
      UNION ALL
      SELECT 'élodie 100 and 1', NULL
    ) AS given (name, email)
  `);

  const forget = ["store", "forget", store.domain, "--customer-email", EMAIL];
  t.like(await impactOf(t).json(...forget), { registrations: 2 * names.length, donations: 0 });
  const left = await db.anyFirst(sql.type(z.strictObject({ name: z.string() }))`
    SELECT customer_name AS name
    FROM registration
    WHERE account_id = ${store.id} AND customer_name IS NOT NULL
  `);
  t.deepEqual(left, ["élodie 100 and 1"]);
});

const storedRow = z.strictObject({ operation: z.string(), keys: z.int(), requests: z.int() });

test("an erasure leaves no hash of a customer's requests, and their keys still charge nothing", async (t) => {
  const { db, post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const writesOf = (order: string) => {
    const customer = { customer_id: `customer of ${order}`, order_id: order };
    const writes = [
      ["plant", { trees: 3, ...customer }],
      ["plastic", { bottles: 2, ...customer }],
      ["charity/donate", { charity_id: "53-0196605", amount_dollars: 1, ...customer }],
      ["refund", { type: "tree", quantity: 1, customer_id: customer.customer_id }],
      ["refund", { type: "donation", quantity: 1, customer_id: customer.customer_id }],
    ] as const;
    return async (add: object = {}) => {
      const responses: Awaited<ReturnType<StoreApi["post"]>>[] = [];
      for (const [index, [path, body]] of writes.entries()) {
        const key = { "Idempotency-Key": `${order}-${index}` };
        const headers = { ...store.live, ...key };
        responses.push(await post(`/app/api/${path}`, headers, { ...body, ...add }));
      }
      return responses;
    };
  };
  const [send, sendOther] = [writesOf("#48213"), writesOf("#48214")];
  const first = await send();
  await sendOther();
  const before = await state();

  const forget = ["store", "forget", store.domain, "--order-id", "#48213"];
  await impactOf(t).ok(...forget);

  const stored = await db.any(sql.type(storedRow)`
    SELECT operation, count(*)::integer AS keys, count(request_hash)::integer AS requests
    FROM idempotency_key
    WHERE account_id = ${store.id}
    GROUP BY operation
    ORDER BY operation
  `);
  t.deepEqual(stored, [
    { operation: "donate", keys: 2, requests: 1 },
    { operation: "plant", keys: 2, requests: 1 },
    { operation: "plastic", keys: 2, requests: 1 },
    { operation: "refund", keys: 4, requests: 2 },
  ]);
  const replays = await send();
  t.like(
    replays,
    first.map(({ text }) => ({ text, replayed: "true" })),
  );
  const changed = { customer_name: "another" };
  t.true((await send(changed)).every(({ status }) => status === 200));
  t.true((await sendOther(changed)).every(({ status }) => status === 400));
  t.deepEqual(await state(), before);
});

const customerExport = z.looseObject({
  registrations: z.array(z.looseObject({ notes: z.string().nullable() })),
});

const SHARED = "Orders@Shop.example";

/** Returns a store where customers 1 and 2 share an address and have one of their own, and functions that use it. */
const createSharingStore = async (t: DatabaseTest) => {
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
  const run = (command: string, ...options: readonly string[]) =>
    impactOf(t).ok("store", command, store.domain, ...options);
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
  ["an id leads to an address that no other id has", null, "--customer-id 1", ["bob", "2"]],
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
