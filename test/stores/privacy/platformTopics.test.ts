import { testWithDatabase } from "../../support/database.ts";
import { createTestStore, startStoreApi } from "../startStoreApi.ts";
import { sendPlatformRequest } from "./sendPlatformRequest.ts";

const test = testWithDatabase();

const SECRET = "s".repeat(32);

/** The bodies that Shopify signs, without the shop. */
const BODIES = {
  "customers/data_request": {
    customer: { id: 7, email: "ann@example.com" },
    orders_requested: [299_938],
    data_request: { id: 9999 },
  },
  "customers/redact": {
    customer: { id: 7, email: "ann@example.com" },
    orders_to_redact: [299_938],
  },
} as const;

for (const [signed, sent, field] of [
  ["customers/data_request", "customers/redact", "orders_requested"],
  ["customers/data_request", "shop/redact", "customer"],
  ["customers/redact", "customers/data_request", "orders_to_redact"],
  ["customers/redact", "shop/redact", "customer"],
] as const) {
  test(`the signed body of ${signed} is rejected as ${sent}`, async (t) => {
    const { db } = t.context;
    const api = await startStoreApi(t, { ...t.context, platformSecrets: [SECRET] });
    const store = await createTestStore(db, { balanceCents: 1000 });
    await api.post("/app/api/plant", store.live, { trees: 1, customer_id: "7" });
    const request = { shop_domain: store.domain, ...BODIES[signed] };

    const { status, body } = await sendPlatformRequest(api, sent, request, SECRET);

    t.is(status, 400);
    t.regex(
      JSON.stringify(body),
      new RegExp(`"(.*; )?${field}: must not be given for this topic`, "u"),
    );
    t.like((await api.get("/app/api/plant", store.live)).body, { trees: [{ customer_id: "7" }] });
  });
}

test("a data request without orders is rejected as an erasure", async (t) => {
  const { db } = t.context;
  const api = await startStoreApi(t, { ...t.context, platformSecrets: [SECRET] });
  const { domain } = await createTestStore(db);
  const request = { shop_domain: domain, customer: { id: 7 }, data_request: { id: 9999 } };

  const { status } = await sendPlatformRequest(api, "customers/redact", request, SECRET);

  t.is(status, 400);
});

for (const customer of [{ id: "7\u0000" }, { email: "ann\u0000@example.com" }]) {
  test(`a data request with ${JSON.stringify(customer)} is rejected`, async (t) => {
    const api = await startStoreApi(t, { ...t.context, platformSecrets: [SECRET] });
    const { domain } = await createTestStore(t.context.db);
    const request = { shop_domain: domain, customer };

    const { status, body } = await sendPlatformRequest(
      api,
      "customers/data_request",
      request,
      SECRET,
    );

    t.is(status, 400);
    t.regex(JSON.stringify(body), /customer\.(?:id|email): /u);
  });
}
