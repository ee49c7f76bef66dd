import { z } from "zod";
import { readJson, impactOf, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestStore, rowsIn, startStoreApiOf } from "../startStoreApi.ts";
import type { StoreApi } from "../startStoreApi.ts";
import { sql } from "../../../db/sql.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { exportCustomer } from "../../../modules/stores/exportCustomer.ts";
import { countPersonalRecords } from "../../../modules/stores/personalData.sql.ts";
import { listPersonalRecords } from "../../../modules/stores/storeRecords.sql.ts";
import { readStoreState } from "../storeState.ts";

const test = testWithDatabase();

test("a record with an order and only a name is exported and counted once", async (t) => {
  const impact = impactOf(t);
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const customer = { customer_name: "Ann Lee" };
  await post("/app/api/plant", store.live, { trees: 1, ...customer, order_id: "#1001" });
  await post("/app/api/plant", store.live, { trees: 2, ...customer, order_id: "#1002" });
  await post("/app/api/plastic", store.live, { bottles: 3, ...customer });
  const order = [store.domain, "--order-id", "1001"];

  const exported = await impact("store", "export-customer", ...order);
  const planned = await impact("store", "forget", ...order, "--dry-run", "--json");
  const erased = await impact("store", "forget", ...order, "--json");

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

for (const [stored, given] of [
  ["NFC", "NFD"],
  ["NFD", "NFC"],
] as const) {
  test(`a customer recorded in ${stored} is found, refunded and erased in ${given}`, async (t) => {
    const impact = impactOf(t);
    const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
    const [name, email, id, order] = ["Zoë Åström", "Zoë.Åström@example.com", "kund-ö", "#Å-1"].map(
      (text) => text.normalize(stored),
    );
    const [sameName = "", sameEmail = "", sameId = "", sameOrder = ""] = [
      "ZOË ÅSTRÖM",
      "ZOË.ÅSTRÖM@EXAMPLE.COM",
      "kund-ö",
      "Å-1",
    ].map((text) => text.normalize(given));
    await post("/app/api/plant", store.live, {
      trees: 2,
      customer_name: name,
      customer_email: email,
    });
    await post("/app/api/plant", store.live, { trees: 1, customer_name: name });
    await post("/app/api/plant", store.live, { trees: 4, customer_id: id, order_id: order });

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
      t.is(tree?.["customer_name"], text === sameId || text === sameOrder ? "" : name);
    }
    const query = new URLSearchParams({ customer_name: sameName });
    t.is((await get(`/app/api/impact/stats?${query.toString()}`, store.live)).body["trees"], 3);
    const refund = { type: "tree", quantity: 3, customer_name: sameName };
    t.is((await post("/app/api/refund", store.live, refund)).status, 200);
    t.like(
      readJson(
        await impact("store", "forget", store.domain, "--customer-email", sameEmail, "--json"),
      ),
      // The second record has only the name.
      { registrations: 2 },
    );
    const byOrder = ["--order-id", sameOrder, "--dry-run", "--json"];
    t.like(readJson(await impact("store", "forget", store.domain, ...byOrder)), {
      registrations: 1,
    });
    const byId = ["--customer-id", sameId, "--json"];
    t.like(readJson(await impact("store", "forget", store.domain, ...byId)), {
      registrations: 1,
    });
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
    const erased = await impact("store", "forget", store.domain, ...named, "--json");

    t.like(readJson(exported), { registrations: isFound ? [fields] : [] }, named.join(" "));
    t.like(readJson(erased), { registrations: isFound ? 1 : 0 }, named.join(" "));
    await impact("store", "forget", store.domain, "--all-customers", "--yes");
  }
});

const CUSTOMER = { ids: ["7"], emails: [], orderIds: [] };

/** Inserts registrations of a customer, each a day older than the one before, with refunds of one unit each. */
const insertRefunds = async (
  { owner }: DatabaseContext,
  storeId: string,
  refunds: readonly number[],
): Promise<void> => {
  await owner.query(sql.typeAlias("void")`
    WITH inserted AS (
      INSERT INTO registration
        (id, account_id, mode, kind, count, refunded_count, created_at, customer_id, unit_price_cents)
      SELECT gen_random_uuid(), ${storeId}, 'live', 'tree', 100000, refunds, now() - make_interval(days => place::int), '7', 0
      FROM unnest(${sql.array([...refunds], "int4")}) WITH ORDINALITY AS given (refunds, place)
      RETURNING id, account_id, refunded_count, created_at
    )
    INSERT INTO refund (id, registration_id, account_id, count, reason, created_at)
    SELECT gen_random_uuid(), id, account_id, 1, number::text, created_at + make_interval(secs => number)
    FROM inserted
    CROSS JOIN LATERAL generate_series(1, refunded_count) AS number
  `);
};

const exportOf = ({ db }: DatabaseContext, storeId: string) =>
  exportCustomer({ db, clock: systemClock, actor: SERVICE }, storeId, CUSTOMER);

test("an export has all reasons of refunds, oldest first", async (t) => {
  const store = await createTestStore(t.context.db);
  await insertRefunds(t.context, store.id, [2, 0, 150]);

  const { registrations, has_more } = await exportOf(t.context, store.id);

  t.deepEqual(
    registrations.map(({ refund_reasons }) => refund_reasons),
    [["1", "2"], [], Array.from({ length: 150 }, (_, index) => String(index + 1))],
  );
  t.false(has_more);
});

const EMAIL = "orders@shop.example";

/** Inserts a registration with an address for each name, and one that has only the name, in upper case. */
const insertNames = async (
  { owner }: DatabaseContext,
  storeId: string,
  names: readonly string[],
): Promise<void> => {
  await owner.query(sql.typeAlias("void")`
    INSERT INTO registration
      (id, account_id, mode, kind, count, created_at, customer_name, customer_email, unit_price_cents)
    SELECT gen_random_uuid(), ${storeId}, 'live', 'tree', 1, now(), given.name, given.email, 0
    FROM unnest(${sql.array([...names], "text")}) AS name
    CROSS JOIN LATERAL (VALUES (name, ${EMAIL}::text), (upper(name), NULL)) AS given (name, email)
  `);
};

const namesOf = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `name ${index}`);

test("a customer may have more names than a statement can have parameters", async (t) => {
  const { db } = t.context;
  const store = await createTestStore(db);
  await insertNames(t.context, store.id, ["name 1", "name 66000"]);
  const names = namesOf(66_000);
  const customer = { identity: { ids: [], emails: [], orderIds: [] }, names };

  const listed = await listPersonalRecords(db, "registration", store.id, customer, 10);

  t.deepEqual(
    listed.map(({ customer_name }) => customer_name),
    ["NAME 1"],
  );
  t.deepEqual(await countPersonalRecords(db, store.id, customer), {
    registrations: 1,
    donations: 0,
  });
});

test("all names of a customer are erased, in any case, and no similar ones", async (t) => {
  const { db, databaseUrl } = t.context;
  const store = await createTestStore(db);
  const names = ["élodie 100%_1", ...namesOf(1100)];
  await insertNames(t.context, store.id, names);
  await t.context.owner.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, customer_name, unit_price_cents)
    VALUES (gen_random_uuid(), ${store.id}, 'live', 'tree', 1, now(), 'élodie 100 and 1', 0)
  `);

  const forget = ["store", "forget", store.domain, "--customer-email", EMAIL, "--json"];
  const run = await runImpact(forget, { env: { DATABASE_URL: databaseUrl } });

  t.like(readJson(run), { registrations: 2 * names.length, donations: 0 });
  const left = await db.anyFirst(sql.type(z.strictObject({ name: z.string() }))`
    SELECT customer_name AS name
    FROM registration
    WHERE account_id = ${store.id} AND customer_name IS NOT NULL
  `);
  t.deepEqual(left, ["élodie 100 and 1"]);
});

const storedRow = z.strictObject({ operation: z.string(), keys: z.int(), requests: z.int() });

test("an erasure leaves no hash of a customer's requests, and their keys still charge nothing", async (t) => {
  const { db } = t.context;
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
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
  const before = await readStoreState(db, store.id);

  const forget = ["store", "forget", store.domain, "--order-id", "#48213"];
  t.is((await impactOf(t)(...forget)).exitCode, 0);

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
  t.true(replays.every(({ headers }) => headers.get("Idempotent-Replayed") === "true"));
  t.deepEqual(
    replays.map(({ text }) => text),
    first.map(({ text }) => text),
  );
  const changed = { customer_name: "another" };
  t.true((await send(changed)).every(({ status }) => status === 200));
  t.true((await sendOther(changed)).every(({ status }) => status === 400));
  t.deepEqual(await readStoreState(db, store.id), before);
});
