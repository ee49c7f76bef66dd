import { atOnce, checksOf, countStatuses, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Answer, Service } from "../../client.ts";
import { expectEqual, expectFields, expectStatus } from "../../expectations.ts";
import { readStats, write } from "./storeRecords.ts";

type Write = {
  readonly path: string;
  /** Returns a body that names the customer. */
  readonly body: (customer: string) => Readonly<Record<string, unknown>>;
  /** What the customer has after one execution. */
  readonly expected: Readonly<Record<string, number>>;
};

const WRITES: readonly Write[] = [
  {
    path: "/app/api/plant",
    body: (customer) => ({ trees: 3, customer_name: customer }),
    expected: { trees: 3 },
  },
  {
    path: "/app/api/plastic",
    body: (customer) => ({ bottles: 3, customer_name: customer }),
    expected: { plastic_bottles: 3 },
  },
  {
    path: "/app/api/charity/donate",
    body: (customer) => ({ charity_id: "53-0196605", amount_dollars: 3, customer_name: customer }),
    expected: { donations: 3 },
  },
  {
    path: "/app/api/refund",
    body: (customer) => ({ type: "tree", quantity: 3, customer_name: customer }),
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

const writeChecks = ({ path, body, expected }: Write): readonly Check[] => {
  const { contract } = checksOf(`POST ${path}`);
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
  ];
};

export const storeIdempotencyChecks: readonly Check[] = WRITES.flatMap((given) =>
  writeChecks(given),
);
