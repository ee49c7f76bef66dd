import { inspect } from "node:util";
import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import {
  createImpactClient,
  ImpactApiError,
  ImpactError,
  createStoreClient,
} from "../../clients/typescript/src/index.ts";
import type { StandaloneSchemas } from "../../clients/typescript/src/index.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { createFaultyFetch } from "./createFaultyFetch.ts";

const test = testWithDatabase();

const isApiError = { instanceOf: ImpactApiError };

const AMERICAN_RED_CROSS = "53-0196605";

const startWithClient = async (t: ExecutionContext<{ readonly db: DatabasePool }>) => {
  const { url, logged, apiKeyTest: apiKey } = await startApiOf(t);
  return { impact: createImpactClient({ baseUrl: url, apiKey }), url, logged, apiKey };
};

const startWithStore = async (
  t: ExecutionContext<{ readonly db: DatabasePool }>,
  balanceCents: number,
  ownFetch = fetch,
) => {
  const { url } = await startStoreApi(t, t.context);
  const { id, domain, live } = await createTestStore(t.context.db, { balanceCents });
  const options = { baseUrl: url, apiKey: live["api_key"] ?? "", fetch: ownFetch };
  return { url, id, options, store: createStoreClient({ ...options, shopName: domain }) };
};

const collect = async <Item>(items: AsyncIterable<Item>): Promise<readonly Item[]> => {
  const collected: Item[] = [];
  for await (const item of items) {
    collected.push(item);
  }
  return collected;
};

test("a registration without a key gets one; with the same key, it is recorded once", async (t) => {
  const { impact } = await startWithClient(t);
  const replays: (string | null)[] = [];
  const options = {
    idempotencyKey: "order-1001 – ü",
    onResponse: ({ headers }: { readonly headers: Headers }) => {
      replays.push(headers.get("Idempotent-Replayed"));
    },
  };

  const first = await impact.registerTrees({ count: 3 }, options);
  const second = await impact.registerTrees({ count: 3 }, options);
  const inBody = await impact.registerTrees({ count: 1, idempotency_key: "order-1002" });
  const automatic = await impact.registerTrees({ count: 2 });

  t.is(first.tree_details[0]?.idempotency_key, "order-1001 – ü");
  t.is(second.tree_details[0]?.id, first.tree_details[0]?.id);
  t.deepEqual(replays, [null, "true"]);
  t.is(inBody.tree_details[0]?.idempotency_key, "order-1002");
  t.regex(automatic.tree_details[0]?.idempotency_key ?? "", /^[0-9a-f-]{36}$/u);
  t.is(automatic.total_planted_trees, 6);
});

test("calls with a path, a query, a body, several of them, or none are made", async (t) => {
  const { impact } = await startWithClient(t);
  const bottles = await impact.registerBottles({ count: 5, metadata: { order: "1" } });
  const { tree_details: trees } = await impact.registerTrees({ count: 3 });
  const id = trees[0]?.id ?? "";
  const refund = await impact.refundBottles({ id: bottles.bottle_details[0]?.id ?? "", count: 2 });
  t.is(refund.refunded_bottles, 2);
  t.is((await impact.refundTreesInBatch({ items: [{ id, count: 1 }] })).succeeded, 1);
  const found = await impact.searchCharities({ ein: AMERICAN_RED_CROSS });
  t.is(found.charities[0]?.name, "American Red Cross");
  t.is((await impact.readTreeEvidence(id, { evidence_stage: "planted" })).status, "planted");
  t.is((await impact.readUsage(id)).registration_id, id);
  const { statements } = await impact.readStatement();
  t.like(statements[0], { kind: "tree", registered: 3, refunded: 1, invoices: [] });
  t.is((await impact.readStatistics({ kind: "tree" })).kind, "tree");
  t.true((await impact.subscribeToDonations()).success);

  const endpoint = { url: "https://shop.example/events" };
  const keyed = { idempotencyKey: "endpoint-1" };
  const create = () => impact.createWebhookEndpoint(endpoint, keyed);
  const created = await create();
  t.deepEqual(await create(), created);
  t.deepEqual((await impact.listWebhookDeliveries(created.id)).deliveries, []);
  await impact.deleteWebhookEndpoint(created.id);
  t.is((await impact.listWebhookEndpoints()).webhook_endpoints.length, 0);
});

test("a loop over a list reads all pages once, with the filters", async (t) => {
  const { impact } = await startWithClient(t);
  for (const count of [1, 2, 3, 4, 5]) {
    await impact.registerTrees({ count, attribution: "kept", metadata: { campaign: "spring" } });
    await impact.registerTrees({ count: 100, attribution: "other" });
  }
  const query = { attribution_key: "kept", metadata: '{"campaign":"spring"}', first: 2 };

  const records = await collect(impact.listTrees(query));
  const pages = await collect(impact.listTrees(query).pages());

  const counts = records.map(({ count }) => count);
  t.deepEqual(counts, [5, 4, 3, 2, 1]);
  const lengths = pages.map((page) => page.tree_details.length);
  t.deepEqual(lengths, [2, 2, 1]);
  t.is(pages[0]?.total_planted_trees, 515);
});

test("a loop over donations yields each once, although more than a page of them is made meanwhile", async (t) => {
  const { impact } = await startWithClient(t);
  const donate = () => impact.donate({ amount_cents: 100, ein: AMERICAN_RED_CROSS });
  const first = [await donate(), await donate(), await donate()];
  const ids: string[] = [];

  for await (const { id } of impact.listDonations({ page_size: 2 })) {
    ids.push(id);
    if (ids.length === 2) {
      await Promise.all([donate(), donate(), donate()]);
    }
  }

  t.deepEqual(ids, first.map((donation) => donation.donation_id).toReversed());
});

test("the feed is followed from the last event on, until the signal ends it", async (t) => {
  const { impact } = await startWithClient(t);
  for (const count of [1, 2, 3]) {
    await impact.registerTrees({ count });
  }
  const seen: StandaloneSchemas["Event"][] = [];
  const stopped = new AbortController();
  const following = (async () => {
    const options = { pollIntervalMs: 5, signal: stopped.signal };
    for await (const event of impact.followEvents({ limit: 2 }, options)) {
      seen.push(event);
      if (seen.length === 3) {
        await impact.registerBottles({ count: 4 });
      }
      if (seen.length === 4) {
        stopped.abort(new Error("enough"));
      }
    }
  })();

  await t.throwsAsync(following, { message: "enough" });
  const counts = seen.map(({ data }) => ("count" in data ? data.count : null));
  t.deepEqual(counts, [1, 2, 3, 4]);
  const after = await collect(impact.listEvents({ starting_after: seen[1]?.id ?? "" }));
  const idsOf = (events: typeof after) => events.map(({ id }) => id);
  t.deepEqual(idsOf(after), idsOf(seen.slice(2)));
});

test("an error has the status, the message and the id of the request in the service's log, and is not repeated", async (t) => {
  const { impact, logged } = await startWithClient(t);

  const keyed = { idempotencyKey: "k" };
  const error = await t.throwsAsync(impact.registerTrees({ count: 0 }, keyed), isApiError);

  const message = "count: must be an integer of at least 1";
  t.like(error, { status: 400, message, code: null, ...keyed, attempts: 1 });
  t.regex(error.requestId, /^[0-9a-f-]{36}$/u);
  await eventually(() => logged().some(({ requestId }) => requestId === error.requestId));
  t.is(error.idempotencyKey, "k");
  t.is(error.attempts, 1);
  const unknown = await t.throwsAsync(impact.readUsage("unknown"), isApiError);
  t.like(unknown, { status: 404, message: "failed to find registration" });
  await t.throwsAsync(impact.readTreeEvidence(".."), { instanceOf: ImpactError });
});

test("unknown options and conflicting keys are refused, and nothing is sent", async (t) => {
  const { impact, url, apiKey } = await startWithClient(t);
  const body = { count: 1, idempotency_key: "order-1" };
  const refuses = (call: () => unknown, message: RegExp) =>
    t.throwsAsync(async () => call(), { instanceOf: ImpactError, message });
  const misspelt: object = { idempotencykey: "order-1" };
  const keyed = { idempotencyKey: "order-1" };

  await refuses(() => impact.registerTrees({ count: 1 }, misspelt), /^idempotencykey: unknown/u);
  await refuses(() => impact.registerTrees(body, { idempotencyKey: "order-2" }), /must equal/u);
  await refuses(() => collect(impact.listTrees({}, misspelt)), /^idempotencykey: unknown/u);
  await refuses(() => impact.subscribeToDonations(keyed), /has no idempotency key/u);
  await refuses(
    () => createImpactClient(Object.assign({ timeout: 5 }, { baseUrl: url, apiKey })),
    /^timeout: unknown/u,
  );
  t.is((await impact.registerTrees(body, keyed)).total_planted_trees, 1);
});

test("the API key is in no error, no printed client and no URL", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const apiKey = "secret-key-of-the-test";
  const requests: string[] = [];
  const impact = createImpactClient({
    baseUrl: url,
    apiKey,
    maxRetries: 0,
    fetch: (input, init) => {
      requests.push(JSON.stringify(input));
      return fetch(input, init);
    },
  });
  const unreachable = createImpactClient({ baseUrl: "http://127.0.0.1:1", apiKey, maxRetries: 0 });

  const withUser = { baseUrl: `http://user:${apiKey}@127.0.0.1`, apiKey };
  const withLine = { baseUrl: url, apiKey: `${apiKey}\n` };
  const errors: readonly unknown[] = [
    await t.throwsAsync(impact.readDashboardUrl()),
    await t.throwsAsync(impact.listTrees().pages().next()),
    await t.throwsAsync(unreachable.registerTrees({ count: 1 })),
    t.throws(() => createImpactClient(withLine), { instanceOf: ImpactError }),
    t.throws(() => createImpactClient(withUser), { instanceOf: ImpactError }),
  ];

  t.is(requests.length, 2);
  const printed = inspect([errors, impact, requests], { depth: 10, showHidden: true });
  t.false(`${printed}${JSON.stringify([errors, impact])}`.includes(apiKey));
});

test("a store plants, rescues, donates and refunds, and is charged once although responses are lost", async (t) => {
  const faulty = createFaultyFetch(["lost response", "cut response"]);
  const { store } = await startWithStore(t, 1000, faulty.fetch);

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

test("lists of a store continue with their cursors", async (t) => {
  const { store } = await startWithStore(t, 10_000);
  for (const trees of [1, 2, 3, 4, 5]) {
    await store.plantTrees({ trees, customer_name: trees === 5 ? "Ben" : "Ann" });
  }
  const trees = await collect(store.listTrees({ limit: 2, customer_name: "Ann" }));
  const { next_cursor: cursor } = await store.balance({ limit: 4 });
  const last = await store.balance({ cursor });
  const entries = await collect(store.listBalanceEntries({ limit: 2 }));

  const counts = trees.map(({ count }) => count);
  t.deepEqual(counts, [4, 3, 2, 1]);
  const quantitiesOf = (page: typeof entries) => page.map(({ quantity }) => quantity);
  t.deepEqual(quantitiesOf(last.entries), [1, null]);
  t.deepEqual(quantitiesOf(entries), [5, 4, 3, 2, 1, null]);
});

test("an error of a store has the code, and a known key with another body is refused", async (t) => {
  const { url, id, options } = await startWithStore(t, 100);
  const store = createStoreClient({ ...options, userId: id });

  const keyed = { idempotencyKey: "k" };
  const poor = await t.throwsAsync(store.plantTrees({ trees: 1000 }), isApiError);
  await store.plantTrees({ trees: 1 }, keyed);
  const other = await t.throwsAsync(store.plantTrees({ trees: 2 }, keyed), isApiError);

  t.like(poor, { status: 402, code: "INSUFFICIENT_BUDGET" });
  t.is(other.code, "INVALID_PARAMETER");
  t.throws(() => createStoreClient({ baseUrl: url, apiKey: "k" }), {
    message: "shopName or userId: one of them must be given",
  });
});
