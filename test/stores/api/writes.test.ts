import { testWithDatabase } from "../../support/database.ts";
import { startStoreApiOf } from "../startStoreApi.ts";
import { readStoreState } from "../storeState.ts";

const test = testWithDatabase();

test("invalid fields are rejected by name, and nothing is recorded", async (t) => {
  const { db } = t.context;
  const { post, store } = await startStoreApiOf(t);

  for (const [path, body, field] of [
    ["plant", {}, "trees: required"],
    ["plant", { trees: 2 ** 53 }, `trees: must be at most ${Number.MAX_SAFE_INTEGER}`],
    ["plant", { trees: 1, order_id: 2 ** 53 }, "order_id: must be a string"],
    ["plant", { trees: 1, order_id: "x".repeat(1001) }, "order_id: must be at most"],
    ["plant", { trees: 1, customer_id: 1.5 }, "customer_id"],
    ["plant", { trees: 1, customer_name: "\u0000" }, "customer_name: must be well-formed"],
    ...["idempotency_key", "idempotencyKey", "Idempotency-Key"].flatMap((name) =>
      [
        ["plant", { trees: 1 }] as const,
        ["plastic", { bottles: 1 }] as const,
        ["charity/donate", { charity_id: "53-0196605", amount: 1 }] as const,
        ["refund", { type: "tree", quantity: 1 }] as const,
      ].map(
        ([write, fields]) =>
          [
            write,
            { ...fields, [name]: "x" },
            `${name}: must be given as the header Idempotency-Key`,
          ] as const,
      ),
    ),
    [
      "charity/donate",
      { charity_id: "53-0196605", amount: 1, currency: "EUR" },
      "currency: must be USD",
    ],
    ["plant", '{"trees": 1e400}', "trees: must be an integer"],
    ["refund", { type: "trees", quantity: 1 }, "type: must be one of tree, plastic, donation"],
    ...["customer_name", "customer_email", "customer_id", "order_id"].flatMap((name) =>
      ["", " \t"].map(
        (empty) =>
          [
            "refund",
            { type: "tree", quantity: 1, order_id: "#1", [name]: empty },
            `${name}: must not be empty; omit it to select the whole store`,
          ] as const,
      ),
    ),
  ] as const) {
    const { status, body: response } = await post(`/app/api/${path}`, store.test, body);
    t.is(status, 400);
    t.is(response["code"], "INVALID_PARAMETER");
    t.true(String(response["error"]).startsWith(field), String(response["error"]));
  }
  t.like(await readStoreState(db, store.id), { registrations: 0, totals: 0 });
});

for (const [path, field] of [
  ["/app/api/plant", "trees"],
  ["/app/api/plastic", "bottles"],
] as const) {
  test(`a total of ${field} beyond the safe integers is rejected by the field's name`, async (t) => {
    const { post, store } = await startStoreApiOf(t);
    await post(path, store.test, { [field]: Number.MAX_SAFE_INTEGER });

    const responses = await Promise.all([
      post("/app/api/plant", store.test, { trees: 1 }),
      post("/app/api/plastic", store.test, { bottles: 1 }),
    ]);

    const refused = responses
      .filter(({ status }) => status === 400)
      .map(({ body }) => body["error"]);
    t.deepEqual(refused, [
      `${field}: would increase the account's total to more than 9007199254740991`,
    ]);
  });
}
