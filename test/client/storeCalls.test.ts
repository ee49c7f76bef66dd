import { createStoreClient, ImpactApiError } from "../../clients/typescript/src/index.ts";
import { OPERATIONS } from "../../clients/typescript/src/generated/store.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { startFaultyProxy } from "./startFaultyProxy.ts";

const test = testWithDatabase();

test("every operation of the store interface has a method of its name", (t) => {
  const store = createStoreClient({ baseUrl: "http://127.0.0.1:1", apiKey: "k", shopName: "s" });

  t.deepEqual(
    Object.keys(OPERATIONS).filter((id) => !(id in store)),
    [],
  );
});

test("a store plants, rescues, donates and refunds, and is charged once although responses are lost", async (t) => {
  const { url } = await startStoreApi(t, t.context);
  const { domain, live } = await createTestStore(t.context.db, { balanceCents: 1000 });
  const proxy = await startFaultyProxy(t, url, ["lost response", "cut response"]);
  const options = { apiKey: live["api_key"] ?? "", shopName: domain };
  const store = createStoreClient({ baseUrl: proxy.url, ...options });

  const planted = await store.plantTrees({ trees: 3, customer_name: "Ann Lee", order_id: "#1" });
  await store.rescuePlastics({ bottles: 10 }, { idempotencyKey: "order-1" });
  await store.donate({ charity_id: "53-0196605", amount_dollars: 2.5 });
  await store.refund({ type: "tree", quantity: 1 });

  t.is(planted.trees_planted, 3);
  const { balance_cents: balance } = await store.balance();
  t.is(balance, 1000 - 150 - 100 - 250 + 50);
  const stats = await store.impactStats();
  t.deepEqual([stats.trees, stats.plastic_bottles, stats.donations], [2, 10, 2.5]);
  t.is((await store.verifyKey()).key_mode, "PROD");
  t.true((await store.searchCharities({ ein: "53-0196605" })).total_items > 0);
  t.is((await store.evidence()).impact_type, "trees");
});

test("a store's write that takes no key is repeated after the service's 503 only", async (t) => {
  const { url } = await startStoreApi(t, t.context);
  const { domain, live } = await createTestStore(t.context.db);
  const proxy = await startFaultyProxy(t, url, [
    { status: 503, body: '{"error":"too many requests","code":"OVERLOADED"}' },
    { status: 503, body: '{"error":"Service Unavailable"}' },
  ]);
  const options = { apiKey: live["api_key"] ?? "", shopName: domain };
  const store = createStoreClient({ baseUrl: proxy.url, ...options });

  const error = await t.throwsAsync(store.pingWebhookEndpoint(crypto.randomUUID()), {
    instanceOf: ImpactApiError,
  });

  t.is(error.status, 503);
  t.is(proxy.seen.length, 2);
});

test("lists of a store continue with their cursors", async (t) => {
  const { url } = await startStoreApi(t, t.context);
  const { domain, live } = await createTestStore(t.context.db, { balanceCents: 10_000 });
  const store = createStoreClient({
    baseUrl: url,
    apiKey: live["api_key"] ?? "",
    shopName: domain,
  });
  for (const trees of [1, 2, 3, 4, 5]) {
    await store.plantTrees({ trees, customer_name: trees === 5 ? "Ben" : "Ann" });
  }
  const counts: number[] = [];
  for await (const { count } of store.listTrees({ limit: 2, customer_name: "Ann" })) {
    counts.push(count);
  }
  const { next_cursor: cursor } = await store.balance({ limit: 4 });
  const { entries } = await store.balance({ cursor });
  const quantities: (number | null)[] = [];
  for await (const { quantity } of store.listBalanceEntries({ limit: 2 })) {
    quantities.push(quantity);
  }

  t.deepEqual(counts, [4, 3, 2, 1]);
  t.deepEqual(
    entries.map(({ quantity }) => quantity),
    [1, null],
  );
  t.deepEqual(quantities, [5, 4, 3, 2, 1, null]);
});

test("an error of a store has the code, and a known key with another body is refused", async (t) => {
  const { url } = await startStoreApi(t, t.context);
  const { id, live } = await createTestStore(t.context.db, { balanceCents: 100 });
  const store = createStoreClient({ baseUrl: url, apiKey: live["api_key"] ?? "", userId: id });

  const poor = await t.throwsAsync(store.plantTrees({ trees: 1000 }), {
    instanceOf: ImpactApiError,
  });
  await store.plantTrees({ trees: 1 }, { idempotencyKey: "k" });
  const other = await t.throwsAsync(store.plantTrees({ trees: 2 }, { idempotencyKey: "k" }), {
    instanceOf: ImpactApiError,
  });

  t.is(poor.status, 402);
  t.is(poor.code, "INSUFFICIENT_BUDGET");
  t.is(other.code, "INVALID_PARAMETER");
  t.throws(() => createStoreClient({ baseUrl: url, apiKey: "k" }), {
    message: "shopName or userId: one of them must be given",
  });
});
