import { startDonationApi } from "../charities/donations/donationSetup.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eachKind, idIn, KIND_NAMES } from "./contract.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();
const forBothKinds = eachKind(test);

forBothKinds("null in an optional field means that it is not given", async (t, kind) => {
  const { path, refundPath, details, refunded } = KIND_NAMES[kind];
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);

  const registered = await call("POST", path, {
    key,
    body: {
      count: 2,
      attribution: null,
      metadata: null,
      idempotency_key: null,
      fractional_count: null,
    },
  });
  const id = idIn(registered.body, kind);
  const withHeader = await call("POST", path, {
    key,
    body: { count: 1, idempotency_key: null },
    headers: { "Idempotency-Key": "order-1" },
  });
  const refund = await call("POST", refundPath, { key, body: { id, reason: null, count: null } });

  t.is(registered.status, 200);
  t.like(registered.body, { [details]: [{ attribution: "", metadata: {}, idempotency_key: "" }] });
  t.like(withHeader.body, { [details]: [{ idempotency_key: "order-1" }] });
  t.like(refund, { status: 200, body: { [refunded]: 2 } });
});

test("donations and their refunds accept null in optional fields", async (t) => {
  const { call, test: key } = await startDonationApi(t, t.context);

  const donated = await call("POST", "/charities/donate", {
    key,
    body: {
      amount_cents: 500,
      ein: "53-0196605",
      nonprofit_id: null,
      charity_name: null,
      idempotency_key: null,
      attribution: null,
      metadata: null,
    },
  });
  const refund = await call("POST", "/refund/donations", {
    key,
    body: {
      id: donated.body["donation_id"],
      reason: null,
      idempotency_key: null,
      metadata: null,
    },
  });

  t.is(donated.status, 200);
  t.is(refund.status, 200);
});

test("a store's writes accept null in optional fields, as the same request as without them", async (t) => {
  const { db } = t.context;
  const { post } = await startStoreApi(t, { db });
  const store = await createTestStore(db, { balanceCents: 10_000 });
  const guest = {
    customer_name: null,
    customer_email: null,
    customer_id: null,
    order_id: null,
    notes: null,
  };
  const headers = { ...store.live, "Idempotency-Key": "guest-1" };

  const planted = await post("/app/api/plant", headers, { trees: 2, ...guest });
  const repeated = await post("/app/api/plant", headers, { trees: 2 });
  const { notes: _, ...donor } = guest;
  const donated = await post("/app/api/charity/donate", store.live, {
    charity_id: "53-0196605",
    amount_dollars: 1,
    amount: null,
    ...donor,
  });

  t.like(planted, { status: 200, body: { customer_name: "", order_id: "" } });
  t.is(repeated.headers.get("Idempotent-Replayed"), "true");
  t.is(donated.status, 200);
});

test("a store's refund rejects null in a selector and accepts it as the reason", async (t) => {
  const { db } = t.context;
  const { post } = await startStoreApi(t, { db });
  const store = await createTestStore(db);
  await post("/app/api/plant", store.test, { trees: 2 });
  const refund = { type: "tree", quantity: 1 };

  for (const selector of ["customer_name", "customer_email", "customer_id", "order_id"]) {
    const { status, body } = await post("/app/api/refund", store.test, {
      ...refund,
      [selector]: null,
    });
    t.is(status, 400, selector);
    t.regex(String(body["error"]), new RegExp(`^${selector}: must be `, "u"));
  }
  const refunded = await post("/app/api/refund", store.test, { ...refund, reason: null });
  t.is(refunded.status, 200);
});

test("the API description allows null in optional fields only", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);

  const document: unknown = await (await fetch(`${url}/openapi.json`)).json();

  t.like(document, {
    components: {
      schemas: {
        NewTreeRegistration: {
          required: ["count"],
          properties: {
            count: { type: "integer" },
            attribution: { type: ["string", "null"], maxLength: 500 },
            metadata: { type: ["object", "null"] },
          },
        },
      },
    },
  });
});
