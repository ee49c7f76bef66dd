import { z } from "zod";
import { atOnce, checksOf, unique, countStatuses } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, NO_OBJECTS, storeRejects } from "../../expectations.ts";
import { STORE_KINDS, storeOf, storeRecordsOf } from "./storeRecords.ts";
import type { StoreKind } from "./storeRecords.ts";
import type { Answer } from "../../client.ts";

const echoed = z.looseObject({ customer_name: z.string(), order_id: z.string() });

export const storeWriteChecks = (kind: StoreKind): readonly Check[] => {
  const { path, field, stat } = STORE_KINDS[kind];
  const { contract, decision } = checksOf(`POST ${path}`, storeRecordsOf(kind));
  return [
    contract("returns the units, the customer and the order", async (t) => {
      const customer = unique("Ann Lee");
      const body = { [field]: 3, customer_name: customer, order_id: "#1001", notes: "a gift" };
      const answer = expect.body(await t.write(body), echoed);
      const named = { customer_name: customer, order_id: "#1001" };
      expect.fields(answer, named);
      const record = await t.findRecord({ customer_name: customer });
      expect.fields(record, { count: 3, ...named });
      const ageMs = Math.abs(Date.now() - Date.parse(record.created_at));
      expect.that(ageMs < 300_000, "created_at must be the present time", record.created_at);
    }),
    contract("only the units are required", async (t) => {
      await t.write({});
    }),
    contract("each request without an Idempotency-Key is recorded", async (t) => {
      const customer = unique("twice");
      await t.write({ customer_name: customer });
      await t.write({ customer_name: customer });
      await t.expectCount({ customer_name: customer }, 2);
    }),
    contract("a quantity that is no positive integer is a 400 INVALID_PARAMETER", async (t) => {
      const before = await t.readStats();
      const wrong = [0, -1, -(2 ** 53 - 1), 1.5, "3", "", true, null, [], {}, 1e300];
      const bodies = [{}, { count: 1 }, ...wrong.map((units) => ({ [field]: units }))];
      await storeRejects(path, { bodies })(t);
      expect.equal(stat, (await t.readStats())[stat], before[stat]);
    }),
    contract(
      "a body that is not a JSON object is a 400 INVALID_PARAMETER",
      storeRejects(path, { bodies: NO_OBJECTS }),
    ),
    contract(
      "wrong types of the texts are a 400 INVALID_PARAMETER",
      storeRejects(path, {
        bodies: ["customer_name", "order_id", "notes"].flatMap((name) =>
          [true, {}, []].map((wrong) => ({ [field]: 1, [name]: wrong })),
        ),
      }),
    ),
    contract("test records do not appear with the production key", async (t) => {
      const customer = unique("mode");
      await t.write({ customer_name: customer });
      const { records } = await t.listPage({ customer_name: customer }, "prod");
      expect.equal("records", records, []);
    }),
    contract("another store's records do not appear", async (t) => {
      const customer = unique("foreign");
      await t.write({ customer_name: customer }, "otherTest");
      await t.expectCount({ customer_name: customer }, 0);
    }),
    decision("300 requests at once are all recorded", async (t) => {
      const customer = unique("burst");
      await atOnce(300, () => t.write({ [field]: 2, customer_name: customer }));
      expect.equal(stat, (await t.readStats({ customer_name: customer }))[stat], 600);
    }),
  ];
};

type Write = {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** What the customer has after one execution. */
  readonly expected: Readonly<Record<string, number>>;
};

const WRITES: readonly Write[] = [
  { path: "/app/api/plant", body: { trees: 3 }, expected: { trees: 3 } },
  { path: "/app/api/plastic", body: { bottles: 3 }, expected: { plastic_bottles: 3 } },
  {
    path: "/app/api/charity/donate",
    body: { charity_id: "53-0196605", amount_dollars: 3 },
    expected: { donations: 3 },
  },
  { path: "/app/api/refund", body: { type: "tree", quantity: 3 }, expected: { trees: 7 } },
];

const writeChecks = ({ path, body, expected }: Write): readonly Check[] => {
  const { contract } = checksOf(`POST ${path}`, (service) => ({
    /** Returns a customer with enough to refund. */
    newCustomer: async (): Promise<string> => {
      const customer = unique("idempotent");
      if (path === "/app/api/refund") {
        await storeRecordsOf("tree")(service).write({ trees: 10, customer_name: customer });
      }
      return customer;
    },
    post: (customer: string, key: string): Promise<Answer> => {
      const headers = { "Idempotency-Key": key };
      return service.store().post(path, { ...body, customer_name: customer }, headers);
    },
    expectOnce: async (customer: string): Promise<void> => {
      expect.fields(await storeOf(service).readStats({ customer_name: customer }), expected);
    },
  }));
  return [
    contract("a repeated Idempotency-Key is not executed again", async (t) => {
      const customer = await t.newCustomer();
      const key = unique("key");
      for (let attempt = 0; attempt < 3; attempt += 1) {
        expect.status(await t.post(customer, key), 200);
      }
      await t.expectOnce(customer);
    }),
    contract("ten overlapping requests with one Idempotency-Key are executed once", async (t) => {
      const customer = await t.newCustomer();
      const key = unique("key");
      const answers = await atOnce(10, () => t.post(customer, key));
      expect.equal("statuses", countStatuses(answers), { 200: 10 });
      await t.expectOnce(customer);
    }),
  ];
};

export const storeIdempotencyChecks: readonly Check[] = WRITES.flatMap((given) =>
  writeChecks(given),
);
