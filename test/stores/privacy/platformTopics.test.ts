import { wrapPool } from "../../../db/pools/wrapPool.ts";
import { sql } from "../../../db/sql.ts";
import { lockBalances } from "../../../db/stores/balances.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestStore, startStoreApi } from "../startStoreApi.ts";
import { eventually } from "../../support/programs.ts";
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

test("a repeated shop/redact gets the result of the erasure that still runs", async (t) => {
  const { db } = t.context;
  let storesFound = 0;
  const counted = wrapPool(db, (method, name) => async (...parameters) => {
    const result = await method(...parameters);
    storesFound += name === "maybeOne" ? 1 : 0;
    return result;
  });
  const api = await startStoreApi(t, { db: counted, platformSecrets: [SECRET] });
  const store = await createTestStore(db, { balanceCents: 1000 });
  await api.post("/app/api/plant", store.live, { trees: 1, customer_id: "7" });
  const send = () => sendPlatformRequest(api, "shop/redact", { shop_domain: store.domain }, SECRET);

  storesFound = 0;
  const sent = await db.transaction(async (transaction) => {
    await lockBalances(transaction, [store.id]);
    const both = [send(), send()];
    await eventually(() => storesFound === 2);
    return both;
  });

  const result = { status: 200, body: { erased: { registrations: 1, donations: 0 } } };
  t.deepEqual(await Promise.all(sent), [result, result]);
  const erasures = await db.any(sql.typeAlias("void")`
    SELECT FROM audit_entry WHERE account_id = ${store.id} AND action = 'store.forget'
  `);
  t.is(erasures.length, 1);
  t.deepEqual(await send(), { status: 200, body: { erased: { registrations: 0, donations: 0 } } });
});
