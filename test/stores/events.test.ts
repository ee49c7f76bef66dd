import { z } from "zod";
import { updateStore as updateStoreRow } from "../../modules/stores/stores.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { updateStore } from "../../modules/stores/manageStores.ts";
import { impactOf } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { runBehindLocks } from "../support/lockWaits.ts";
import { startReceiver } from "../events/startReceiver.ts";
import { verify, LOOPBACK, createDeliveriesTo, deliveryContext } from "../events/webhookScene.ts";
import { changeTestBalance, createTestStore, startStoreApiOf } from "./startStoreApi.ts";
import { EIN, listBalanceEvents } from "./storeState.ts";

const test = testWithDatabase();

/** Serves a store where a tree costs 50 cents, with what the tests do to its balance. */
const setUpBalance = async (
  t: DatabaseTest,
  given: { readonly balanceCents: number; readonly lowBalanceCents: number },
) => {
  const { db, post, store } = await startStoreApiOf(t, { store: given });
  const operator = { db, clock: systemClock, actor: SERVICE };
  const change = (kind: "topup" | "adjustment", amountCents: number) =>
    changeTestBalance(db, store.id, amountCents, { kind, reference: crypto.randomUUID() });
  return {
    post,
    store,
    plant: (trees: number) => post("/app/api/plant", store.live, { trees }),
    donate: (amount: number) =>
      post("/app/api/charity/donate", store.live, { charity_id: EIN, amount_dollars: amount }),
    topUp: (amountCents: number) => change("topup", amountCents),
    adjust: (amountCents: number) => change("adjustment", amountCents),
    setThreshold: (lowBalanceCents: number) => updateStore(operator, store.id, { lowBalanceCents }),
    /** The store's events so far, each with the balance, and with the threshold or the amount that was needed. */
    events: async () => {
      const rows = await listBalanceEvents(db, store.id);
      t.true(rows.every(({ mode, data }) => mode === "live" && data["currency"] === "USD"));
      t.true(rows.every(({ data }) => data["shop_domain"] === store.domain));
      return rows.map(({ type, data }) => {
        const limit = data["threshold_cents"] ?? data["needed_cents"];
        return `${type} ${data.balance_cents} of ${String(limit)}`;
      });
    },
  };
};

test("a balance that passes below its threshold is reported once, and again after it was above", async (t) => {
  const given = { balanceCents: 300, lowBalanceCents: 200 };
  const { plant, donate, topUp, events } = await setUpBalance(t, given);

  await plant(2);
  t.deepEqual(await events(), [], "200 is not below 200");
  await plant(1);
  await plant(1);
  t.deepEqual(await events(), ["balance.low 150 of 200"]);
  await topUp(50);
  await plant(1);
  t.deepEqual(await events(), ["balance.low 150 of 200"], "the balance was low all the time");
  await topUp(100);
  await donate(1.5);
  t.deepEqual(await events(), ["balance.low 150 of 200", "balance.low 50 of 200"]);
});

test("a rejected write is reported once until the balance rises, and leaves nothing else", async (t) => {
  const given = { balanceCents: 60, lowBalanceCents: 0 };
  const { post, store, plant, donate, topUp, events } = await setUpBalance(t, given);

  t.is((await plant(2)).status, 402);
  t.is((await plant(3)).status, 402);
  t.is((await donate(1)).status, 402);
  t.is((await plant(1)).status, 200);
  t.is((await plant(1)).status, 402);
  t.deepEqual(await events(), ["balance.depleted 60 of 100"]);
  await topUp(20);
  t.is((await donate(0.31)).status, 402);
  t.is((await plant(1)).status, 402);
  t.deepEqual(await events(), ["balance.depleted 60 of 100", "balance.depleted 30 of 31"]);
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1 });
  t.is((await plant(2)).status, 402);
  t.deepEqual((await events()).at(-1), "balance.depleted 80 of 100");
});

test("an operator's adjustment and a higher threshold report a low balance", async (t) => {
  const given = { balanceCents: 500, lowBalanceCents: 300 };
  const { adjust, setThreshold, events } = await setUpBalance(t, given);

  await adjust(-100);
  t.deepEqual(await events(), []);
  await adjust(-150);
  t.deepEqual(await events(), ["balance.low 250 of 300"]);
  await setThreshold(400);
  t.is((await events()).length, 1, "it was low before");
  await setThreshold(100);
  await setThreshold(251);
  t.deepEqual((await events()).at(-1), "balance.low 250 of 251");
});

for (const { path, body } of [
  { path: "/app/api/plant", body: { trees: 10 } },
  { path: "/app/api/charity/donate", body: { charity_id: EIN, amount_dollars: 5 } },
]) {
  test(`a threshold that was raised while ${path} waited for the balance is the one that it crosses`, async (t) => {
    const given = { balanceCents: 1200, lowBalanceCents: 0 };
    const { post, store, events } = await setUpBalance(t, given);

    const [response] = await runBehindLocks<[{ readonly status: number }]>(
      t.context.db,
      async (transaction) => {
        await updateStoreRow(transaction, store.id, { lowBalanceCents: 1000 });
      },
      () => post(path, store.live, body),
    );

    t.is(response.status, 200);
    t.deepEqual(await events(), ["balance.low 700 of 1000"]);
  });
}

const ENDPOINTS = "/app/api/webhook_endpoints";
const createdEndpoint = z.looseObject({ id: z.string(), secret: z.string() });

test("a store's server receives its low and its depleted balance and its refunds, signed", async (t) => {
  const given = { balanceCents: 100, lowBalanceCents: 100 };
  const options = { webhookSettings: LOOPBACK, store: given };
  const { db, post, get, store } = await startStoreApiOf(t, options);
  const receiver = await startReceiver(t);
  const endpoint = await post(ENDPOINTS, store.live, { url: receiver.url, types: ["*"] });
  t.is(endpoint.status, 200);
  const { id, secret } = createdEndpoint.parse(endpoint.body);

  await post("/app/api/plant", store.live, { trees: 1 });
  await post("/app/api/plant", store.live, { trees: 2 });
  await post("/app/api/plant", store.live, { trees: 2 });
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1, reason: "PERSONAL" });
  await createDeliveriesTo(deliveryContext(db), id)();

  const messages = receiver.received.map((request) => {
    const { type, data } = verify(request, secret);
    const { sequence: _sequence, registration_id: _id, ...content } = data;
    return [type, content] as const;
  });
  t.is(messages.length, 3);
  const shown = { shop_domain: store.domain, balance_cents: 50, currency: "USD" };
  t.deepEqual(Object.fromEntries(messages), {
    "registration.refunded": { kind: "tree", count: 1, remaining_count: 0 },
    "balance.low": { ...shown, threshold_cents: 100 },
    "balance.depleted": { ...shown, needed_cents: 100 },
  });
  const page = await get(`${ENDPOINTS}/${id}/deliveries?limit=1`, store.live);
  t.like(page.body, { deliveries: { length: 1 } });
});

test("a store manages its own endpoints and no others, with its own types and errors", async (t) => {
  const { url, post, get, store } = await startStoreApiOf(t);
  const other = await createTestStore(t.context.db);
  const given = { url: "https://shop.example/hook", types: ["balance.low"] };
  const { id } = createdEndpoint.parse((await post(ENDPOINTS, store.live, given)).body);
  const path = `${ENDPOINTS}/${id}`;

  t.like(await get(path, store.live), { status: 200, body: { types: ["balance.low"] } });
  const disabled = await post(path, store.live, { types: ["*"], status: "disabled" });
  t.like(disabled.body, { types: ["*"], status: "disabled" });
  const refused = { status: 400, body: { code: "INVALID_PARAMETER" } };
  t.like(await post(`${path}/ping`, store.live, {}), refused);
  await post(path, store.live, { status: "enabled" });
  const since = new Date(Date.now() - 60_000).toISOString();
  t.like(await post(`${path}/recover`, store.live, { since }), { body: { recovered_count: 0 } });
  t.like(await post(`${path}/rotate`, store.live, {}), { status: 200 });
  t.like(await post(ENDPOINTS, store.live, { ...given, types: ["donation.created"] }), {
    status: 400,
    body: {
      code: "INVALID_PARAMETER",
      error:
        'types.0: must be one of balance.low, balance.depleted, registration.refunded, donation.refunded, evidence.milestone_reached, webhook_endpoint.disabled, or "*" for all',
    },
  });
  for (const stranger of [other.live, store.test]) {
    t.like(await get(path, stranger), { status: 404, body: { code: "NOT_FOUND" } });
    t.deepEqual((await get(ENDPOINTS, stranger)).body, { webhook_endpoints: [] });
  }
  const deleted = await fetch(`${url}${path}`, { method: "DELETE", headers: store.live });
  t.is(deleted.status, 200);
  t.is((await get(path, store.live)).status, 404);

  const types = ["--types", "usage.failed", "--url", "https://shop.example/hook"];
  const create = ["webhook", "create", "--mode", "live", "--org", store.id, ...types];
  const run = await impactOf(t)(...create);
  t.regex(run.stderr, /types: a store has no events usage\.failed, only balance\.low/u);
});
