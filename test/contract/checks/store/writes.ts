import { z } from "zod";
import { atOnce, checksOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import {
  expectBody,
  expectEqual,
  expectFields,
  expectStatus,
  expectThat,
  NO_OBJECTS,
  storeRejects,
} from "../../expectations.ts";
import {
  expectCount,
  findRecord,
  listPage,
  readStats,
  reverse,
  STORE_KINDS,
  write,
} from "./storeRecords.ts";
import type { StoreKind } from "./storeRecords.ts";

const echoed = z.looseObject({ customer_name: z.string(), order_id: z.string() });

export const storeWriteChecks = (kind: StoreKind): readonly Check[] => {
  const { path, field, stat, refundType } = STORE_KINDS[kind];
  const { contract, decision } = checksOf(`POST ${path}`);
  return [
    contract("returns the units, the customer and the order", async (service) => {
      const customer = unique("Ann Lee");
      const body = { [field]: 3, customer_name: customer, order_id: "#1001", notes: "a gift" };
      const answer = expectBody(await write(service, kind, body), echoed);
      const named = { customer_name: customer, order_id: "#1001" };
      expectFields(answer, named);
      const record = await findRecord(service, kind, { customer_name: customer });
      expectFields(record, { count: 3, ...named });
      const ageMs = Math.abs(Date.now() - Date.parse(record.created_at));
      expectThat(ageMs < 300_000, "created_at must be the present time", record.created_at);
    }),
    contract("only the units are required", async (service) => {
      await write(service, kind, {});
    }),
    contract("each request without an Idempotency-Key is recorded", async (service) => {
      const customer = unique("twice");
      await write(service, kind, { customer_name: customer });
      await write(service, kind, { customer_name: customer });
      await expectCount(service, kind, { customer_name: customer }, 2);
    }),
    contract(
      "a quantity that is not an integer of at least 1 is a 400 INVALID_PARAMETER",
      async (service) => {
        const before = await readStats(service);
        const wrong = [0, -1, -(2 ** 53 - 1), 1.5, "3", "", true, null, [], {}, 1e300];
        const bodies = [{}, { count: 1 }, ...wrong.map((units) => ({ [field]: units }))];
        await storeRejects(path, { bodies })(service);
        expectEqual(stat, (await readStats(service))[stat], before[stat]);
      },
    ),
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
    contract("test records do not appear with the production key", async (service) => {
      const customer = unique("mode");
      await write(service, kind, { customer_name: customer });
      const { records } = await listPage(service, kind, { customer_name: customer }, "prod");
      expectEqual("records", records, []);
    }),
    contract("another store's records do not appear", async (service) => {
      const customer = unique("foreign");
      await write(service, kind, { customer_name: customer }, "otherTest");
      await expectCount(service, kind, { customer_name: customer }, 0);
    }),
    decision("300 requests at once are all recorded", async (service) => {
      const customer = unique("burst");
      await atOnce(300, () => write(service, kind, { [field]: 2, customer_name: customer }));
      expectEqual(stat, (await readStats(service, { customer_name: customer }))[stat], 600);
    }),
    decision("3,000,000,000 units are recorded with a test key", async (service) => {
      const customer = unique("many");
      const before = await readStats(service);
      const body = { [field]: 3_000_000_000, customer_name: customer };
      await write(service, kind, body);
      try {
        expectEqual(stat, (await readStats(service))[stat], before[stat] + 3_000_000_000);
        expectEqual(
          "count",
          (await findRecord(service, kind, { customer_name: customer })).count,
          3_000_000_000,
        );
      } finally {
        const answer = await reverse(service, {
          type: refundType,
          quantity: 3_000_000_000,
          customer_name: customer,
        });
        expectStatus(answer, 200);
      }
      expectEqual(stat, (await readStats(service))[stat], before[stat]);
    }),
    decision("unknown fields, query parameters and null are ignored", async (service) => {
      const body = { foo: 1, customer_name: null, order_id: null, notes: null };
      await write(service, kind, body);
      const answer = await service
        .store()
        .post(`${path}?foo=1&${field}=9&order_id=x`, { [field]: 1 });
      expectStatus(answer, 200);
    }),
    decision(
      "texts come back as they were sent, with room for 1,000 characters",
      async (service) => {
        for (const text of [" padded ", "Zoë – 日本語 🌳", `"O'Brien" <b>&amp;`, "ü".repeat(950)]) {
          const customer = unique(text);
          const body = { customer_name: customer, order_id: customer, notes: "n".repeat(10_000) };
          const named = { customer_name: customer, order_id: customer };
          expectFields(expectBody(await write(service, kind, body), echoed), named);
          expectFields(await findRecord(service, kind, { order_id: customer }), named);
        }
      },
    ),
    decision(
      "the customer is also named by email or customer_email and customer_id",
      async (service) => {
        for (const name of ["email", "customer_email"]) {
          const email = `${unique("ann")}@example.com`;
          await write(service, kind, { [name]: email });
          await expectCount(service, kind, { customer_email: email }, 1);
        }
        const id = unique("customer");
        await write(service, kind, { customer_id: id });
        await expectCount(service, kind, { customer_id: id }, 1);
      },
    ),
    decision("order_id, customer_id and customer_name may be numbers", async (service) => {
      const number = Math.floor(Math.random() * 1e15);
      const body = { order_id: number, customer_id: number, customer_name: number };
      const text = String(number);
      const answer = expectBody(await write(service, kind, body), echoed);
      expectFields(answer, { order_id: text, customer_name: text });
      await expectCount(service, kind, { order_id: text, customer_id: text }, 1);
    }),
    decision("invalid UTF-8 is a 400 INVALID_PARAMETER", async (service) => {
      const body = Buffer.concat([
        Buffer.from(`{"${field}":1,"notes":"`),
        Buffer.from([0xc3, 0x28]),
        Buffer.from('"}'),
      ]);
      await storeRejects(path, { bodies: [body] })(service);
    }),
    decision(
      "a misspelt idempotency key in the body is a 400 that names the right one",
      storeRejects(
        path,
        {
          bodies: ["idempotencyKey", "idempotency-key", "IdempotencyKey"].map((name) => ({
            [field]: 1,
            [name]: "x",
          })),
        },
        /idempotency[-_]key/iu,
      ),
    ),
  ];
};
