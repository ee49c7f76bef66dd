import { z } from "zod";
import { systemClock } from "../../../domain/clock.ts";
import { createWebhookSender } from "../../../providers/webhooks/createWebhookSender.ts";
import { deliverWebhooks } from "../../../services/webhooks/deliverWebhooks.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { startReceiver } from "../../webhooks/startReceiver.ts";
import { verify } from "../../webhooks/webhookScene.ts";
import { createTestStore, startStoreApi } from "../startStoreApi.ts";

const test = testWithDatabase();

const PATH = "/app/api/webhook_endpoints";
const ALLOWED = { allowsHttp: true, allowedNetworks: ["127.0.0.0/8"] };
const created = z.looseObject({ id: z.string(), secret: z.string() });

test("a store's server receives its low and its depleted balance, signed", async (t) => {
  const { db } = t.context;
  const { post, get } = await startStoreApi(t, { db, webhookSettings: ALLOWED });
  const receiver = await startReceiver(t);
  const store = await createTestStore(db, { balanceCents: 100, lowBalanceCents: 100 });
  const endpoint = await post(PATH, store.live, { url: receiver.url, types: ["*"] });
  t.is(endpoint.status, 200);
  const { id, secret } = created.parse(endpoint.body);

  await post("/app/api/plant", store.live, { trees: 1 });
  await post("/app/api/plant", store.live, { trees: 2 });
  await post("/app/api/plant", store.live, { trees: 2 });
  await deliverWebhooks(
    {
      db,
      clock: systemClock,
      send: createWebhookSender(ALLOWED),
      random: () => 0.5,
      observeAttempt: () => undefined,
      observeDisabled: () => undefined,
    },
    id,
    new AbortController().signal,
  );

  const messages = receiver.received.map((request) => verify(request, secret));
  t.deepEqual(
    messages
      .map(({ type, data: { sequence: _sequence, ...data } }) => ({ type, data }))
      .toSorted((one, two) => two.type.localeCompare(one.type)),
    [
      {
        type: "balance.low",
        data: {
          shop_domain: store.domain,
          balance_cents: 50,
          currency: "USD",
          threshold_cents: 100,
        },
      },
      {
        type: "balance.depleted",
        data: { shop_domain: store.domain, balance_cents: 50, currency: "USD", needed_cents: 100 },
      },
    ],
  );
  const page = await get(`${PATH}/${id}/deliveries?limit=1`, store.live);
  t.like(page.body, { has_more: true });
  t.is(page.headers.get("link"), null);
});

test("a store manages its own endpoints and no others, with its own types and errors", async (t) => {
  const { db } = t.context;
  const { url, post, get } = await startStoreApi(t, { db });
  const store = await createTestStore(db);
  const other = await createTestStore(db);
  const given = { url: "https://shop.example/hook", types: ["balance.low"] };
  const { id } = created.parse((await post(PATH, store.live, given)).body);
  const path = `${PATH}/${id}`;

  t.like(await get(path, store.live), { status: 200, body: { types: ["balance.low"] } });
  t.like(await post(path, store.live, { types: ["*"] }), { body: { types: ["*"] } });
  t.like(await post(`${path}/disable`, store.live, {}), { body: { status: "disabled" } });
  t.like(await post(`${path}/ping`, store.live, {}), {
    status: 400,
    body: { code: "INVALID_PARAMETER" },
  });
  t.like(await post(`${path}/enable`, store.live, {}), { body: { status: "enabled" } });
  t.is((await post(`${path}/ping`, store.live, {})).status, 200);
  const since = new Date(Date.now() - 60_000).toISOString();
  t.like(await post(`${path}/recover`, store.live, { since }), { body: { recovered_count: 0 } });
  t.like(await post(`${path}/rotate`, store.live, {}), { status: 200 });
  t.like(await post(PATH, store.live, { ...given, types: ["donation.created"] }), {
    status: 400,
    body: {
      code: "INVALID_PARAMETER",
      error:
        'types.0: must be one of balance.low, balance.depleted, evidence.milestone_reached, or "*" for all',
    },
  });
  for (const stranger of [other.live, store.test]) {
    t.like(await get(path, stranger), { status: 404, body: { code: "NOT_FOUND" } });
    t.deepEqual((await get(PATH, stranger)).body, { webhook_endpoints: [] });
  }
  const deleted = await fetch(`${url}${path}`, { method: "DELETE", headers: store.live });
  t.is(deleted.status, 200);
  t.is((await get(path, store.live)).status, 404);
});

test("the command line manages the endpoints of a store, which has its own types", async (t) => {
  const { db, databaseUrl } = t.context;
  const store = await createTestStore(db);
  const impact = (...args: readonly string[]) =>
    runImpact(["webhook", ...args], { env: { DATABASE_URL: databaseUrl } });
  const create = (...args: readonly string[]) =>
    impact("create", "--mode", "live", "--url", "https://shop.example/hook", ...args);

  const done = await create("--store", store.domain, "--types", "balance.depleted", "--json");
  t.is(done.exitCode, 0, done.stderr);
  const { id } = created.parse(readJson(done));
  const list = await impact("list", "--store", store.id);
  t.regex(list.stdout, /https:\/\/shop\.example\/hook +balance\.depleted +enabled/u);
  for (const run of [
    await create("--store", store.domain, "--types", "usage.failed"),
    await impact("update", id, "--types", "balance.low,usage.failed"),
  ]) {
    t.regex(run.stderr, /types: a store has no events usage\.failed, only balance\.low/u);
    t.not(run.exitCode, 0);
  }
  t.regex((await create()).stderr, /Pass --org or --store/u);
});
