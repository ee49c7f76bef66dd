import { atOnce, checksOf, countStatuses, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Answer, Service } from "../../client.ts";
import { expectEqual, expectFields, expectStatus, expectStoreError } from "../../expectations.ts";
import { readStats, write } from "./storeRecords.ts";

type Write = {
  readonly path: string;
  /** Returns a body that names the customer. */
  readonly body: (customer: string) => Readonly<Record<string, unknown>>;
  readonly other: Readonly<Record<string, unknown>>;
  readonly invalid: Readonly<Record<string, unknown>>;
  /** What the customer has after one execution. */
  readonly expected: Readonly<Record<string, number>>;
};

const WRITES: readonly Write[] = [
  {
    path: "/app/api/plant",
    body: (customer) => ({ trees: 3, customer_name: customer }),
    other: { trees: 4 },
    invalid: { trees: -1 },
    expected: { trees: 3 },
  },
  {
    path: "/app/api/plastic",
    body: (customer) => ({ bottles: 3, customer_name: customer }),
    other: { bottles: 4 },
    invalid: { bottles: -1 },
    expected: { plastic_bottles: 3 },
  },
  {
    path: "/app/api/charity/donate",
    body: (customer) => ({ charity_id: "53-0196605", amount_dollars: 3, customer_name: customer }),
    other: { amount_dollars: 4 },
    invalid: { amount_dollars: -1 },
    expected: { donations: 3 },
  },
  {
    path: "/app/api/refund",
    body: (customer) => ({ type: "tree", quantity: 3, customer_name: customer }),
    other: { quantity: 4 },
    invalid: { quantity: -1 },
    expected: { trees: 7 },
  },
];

/** Returns a customer with enough to refund. */
const newCustomer = async (service: Service, path: string): Promise<string> => {
  const customer = unique("idempotent");
  if (path === "/app/api/refund") {
    await write(service, "tree", { trees: 10, customer_name: customer });
  }
  return customer;
};

const writeChecks = ({ path, body, other, invalid, expected }: Write): readonly Check[] => {
  const { contract, decision } = checksOf(`POST ${path}`);
  const post = (service: Service, given: unknown, key: string): Promise<Answer> =>
    service.store().post(path, given, { "Idempotency-Key": key });
  const expectOnce = async (service: Service, customer: string): Promise<void> => {
    expectFields(await readStats(service, { customer_name: customer }), expected);
  };
  return [
    contract("a repeated Idempotency-Key is not executed again", async (service) => {
      const customer = await newCustomer(service, path);
      const key = unique("key");
      for (let attempt = 0; attempt < 3; attempt += 1) {
        expectStatus(await post(service, body(customer), key), 200);
      }
      await expectOnce(service, customer);
    }),
    contract(
      "ten overlapping requests with one Idempotency-Key are executed once",
      async (service) => {
        const customer = await newCustomer(service, path);
        const key = unique("key");
        const answers = await atOnce(10, () => post(service, body(customer), key));
        expectEqual("statuses", countStatuses(answers), { 200: 10 });
        await expectOnce(service, customer);
      },
    ),
    decision("a replay has the first response byte for byte", async (service) => {
      const customer = await newCustomer(service, path);
      const key = unique("key");
      const first = await post(service, body(customer), key);
      const replay = await post(service, body(customer), key);
      expectStatus(replay, 200);
      expectEqual("body", replay.text, first.text);
      expectEqual("Idempotent-Replayed", replay.headers.get("idempotent-replayed"), "true");
      expectEqual("header of the first", first.headers.get("idempotent-replayed"), null);
    }),
    decision(
      "another body with the same Idempotency-Key is a 400 INVALID_PARAMETER",
      async (service) => {
        const customer = await newCustomer(service, path);
        const key = unique("key");
        expectStatus(await post(service, body(customer), key), 200);
        const answer = await post(service, { ...body(customer), ...other }, key);
        expectStoreError(answer, 400, "INVALID_PARAMETER");
        await expectOnce(service, customer);
      },
    ),
    decision("quotes around an Idempotency-Key are syntax", async (service) => {
      const customer = await newCustomer(service, path);
      const key = unique("key");
      const first = await post(service, body(customer), key);
      expectEqual("body", (await post(service, body(customer), `"${key}"`)).text, first.text);
      await expectOnce(service, customer);
    }),
    decision("a failed validation does not use the Idempotency-Key", async (service) => {
      const customer = await newCustomer(service, path);
      const key = unique("key");
      const failed = await post(service, { ...body(customer), ...invalid }, key);
      expectStoreError(failed, 400, "INVALID_PARAMETER");
      expectStatus(await post(service, body(customer), key), 200);
      await expectOnce(service, customer);
    }),
    decision("an Idempotency-Key of 1,000 characters is accepted", async (service) => {
      const customer = await newCustomer(service, path);
      const key = unique("k".repeat(960));
      const first = await post(service, body(customer), key);
      expectStatus(first, 200);
      expectEqual("body", (await post(service, body(customer), key)).text, first.text);
    }),
  ];
};

const { decision } = checksOf("Idempotency-Key of stores");

export const storeIdempotencyChecks: readonly Check[] = [
  ...WRITES.flatMap((given) => writeChecks(given)),
  decision("each operation, store and mode has keys of its own", async (service) => {
    const headers = { "Idempotency-Key": unique("key") };
    const answers = [
      await service.store().post("/app/api/plant", { trees: 1 }, headers),
      await service.store().post("/app/api/plastic", { bottles: 1 }, headers),
      await service.store("otherTest").post("/app/api/plant", { trees: 2 }, headers),
    ];
    for (const answer of answers) {
      expectStatus(answer, 200);
      expectEqual("Idempotent-Replayed", answer.headers.get("idempotent-replayed"), null);
    }
  }),
];
