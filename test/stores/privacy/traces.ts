import { withClient } from "../../support/database.ts";
import type { StoreApi, TestStore } from "../startStoreApi.ts";

/** Returns every row of every table as text. */
export const dumpDatabase = (databaseUrl: string): Promise<string> =>
  withClient(databaseUrl, async (client) => {
    const tables = await client.query<{ name: string }>(
      "SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'public'",
    );
    const rows: string[] = [];
    for (const { name } of tables.rows) {
      const dumped = await client.query<{ row: string }>(
        `SELECT ${name}::text AS row FROM ${name}`,
      );
      rows.push(...dumped.rows.map(({ row }) => `${name}: ${row}`));
    }
    return rows.join("\n");
  });

/** A customer whose name, address and ids occur nowhere else. */
export const createPerson = () => {
  const tag = crypto.randomUUID().slice(0, 8);
  const number = String(BigInt(`0x${tag}`) + 7_000_000_000n);
  return {
    name: `Ann Lee-${tag}`,
    email: `Ann.${tag}@Example.com`,
    id: number,
    order: `#O${tag}`,
    tag,
  };
};
type Person = ReturnType<typeof createPerson>;

/** Leaves the customer's traces wherever a store's records can have them. */
export const leaveTraces = async (
  { post }: Pick<StoreApi, "post">,
  store: TestStore,
  person: Person,
) => {
  const { name: customer_name, email: customer_email, id: customer_id } = person;
  const customer = { customer_name, customer_email, customer_id };
  const plant = { trees: 3, ...customer, order_id: person.order, notes: `for ${person.name}` };
  const key = { "Idempotency-Key": `plant for ${person.email}` };
  const planted = await post("/app/api/plant", { ...store.live, ...key }, plant);
  await post("/app/api/plant", store.live, { trees: 1, customer_id: person.id });
  const small = { trees: 2, customer_email: person.email.toLowerCase() };
  await post("/app/api/plant", store.test, small);
  await post("/app/api/plastic", store.live, { bottles: 5, customer_name: person.name });
  const donation = { charity_id: "53-0196605", amount_dollars: 1, ...customer };
  await post("/app/api/charity/donate", store.live, donation);
  const ofPerson = { quantity: 1, customer_id: person.id };
  const wrote = { ...ofPerson, type: "tree", reason: `${person.name} wrote from ${person.email}` };
  await post("/app/api/refund", store.live, wrote);
  const asked = { ...ofPerson, type: "donation", reason: `asked by ${person.email}` };
  await post("/app/api/refund", store.live, asked);
  return { plant, key, planted };
};

export const holds = (dump: string, { name, email, id }: Person): readonly string[] =>
  [name, email, id].filter((text) => dump.toLowerCase().includes(text.toLowerCase()));
