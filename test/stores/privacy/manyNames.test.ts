import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { countSelectedRecords } from "../../../db/stores/personalData.ts";
import { listPersonalRegistrations } from "../../../db/stores/personalRecords.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestStore } from "../startStoreApi.ts";

const test = testWithDatabase();

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

  const listed = await listPersonalRegistrations(db, store.id, customer, 10);

  t.deepEqual(
    listed.map(({ customerName }) => customerName),
    ["NAME 1"],
  );
  t.deepEqual(await countSelectedRecords(db, store.id, customer), {
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
