import { z } from "zod";
import type { ExecutionContext } from "ava";
import { sql } from "../../db/sql.ts";
import { recordEndpointResults } from "../../modules/events/endpoints.sql.ts";
import { makeFutureDeliveriesDue } from "../../modules/events/recovery.sql.ts";
import { recordEvents } from "../../modules/events/recordEvent.ts";
import { deleteOldDeliveries } from "../../modules/events/deleteOldEvents.ts";
import {
  deleteWebhookEndpoint,
  switchWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import {
  recoverWebhookEvents,
  retryWebhookDelivery,
} from "../../modules/events/recoverWebhookEvents.ts";
import { issueKey } from "../../modules/accounts/issueKey.ts";
import { impactOf, readJson } from "../cli/runImpact.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { refunded } from "./readEvents.ts";
import { createDeliveriesTo } from "./deliverTo.ts";
import { answer } from "./startReceiver.ts";
import { setUpWebhooks, verify } from "./webhookScene.ts";

const test = testWithDatabase();

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const scene = await setUpWebhooks(t);
  const { receiver, secret } = scene;
  return {
    ...scene,
    names: () =>
      receiver.received.map((request) => String(verify(request, secret).data["registration_id"])),
  };
};

test("what was recorded while an endpoint was disabled and what failed is recovered, once", async (t) => {
  const { deps, endpoint, record, deliver, receiver, pass, clock, names } = await setUp(t);
  await record("before");
  await deliver();
  pass(1);
  const since = clock.now();
  receiver.respond(answer(500));
  await record("failed");
  await deliver();
  await switchWebhookEndpoint(deps, endpoint, "disabled");
  await record("meanwhile");
  await t.throwsAsync(
    async () => recoverWebhookEvents(deps, { ...endpoint, disabledAt: since }, since),
    { message: /is disabled/u },
  );
  await switchWebhookEndpoint(deps, endpoint, "enabled");
  receiver.respond(answer(204));
  await record("after");

  t.deepEqual(await recoverWebhookEvents(deps, endpoint, since), { recovered: 2, hasMore: false });
  await deliver();
  t.deepEqual(names().toSorted(), ["after", "before", "failed", "failed", "meanwhile"]);
  const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
  t.is(new Set(ids).size, 4);
  t.like(await recoverWebhookEvents(deps, endpoint, since), { recovered: 0 });
});

test("operators see why an endpoint fails, list what fails, and a recovery sends it now", async (t) => {
  const { deps, endpoint, record, deliver, deliveries, receiver, clock, pass, names } =
    await setUp(t);
  const impact = impactOf(t);
  receiver.respond(answer(400));
  await record("failing");
  const since = clock.now();
  t.true(Number(await deliver()) > 0);
  t.like(await deliveries(), [{ state: "pending", attempts: 1 }]);

  const list = await impact("webhook", "list");
  const shortTime = since.toISOString().slice(0, 19).replace("T", " ");
  t.true(list.stdout.includes(`failing: status 400 since ${shortTime}Z`), list.stdout);
  const line = list.stdout.split("\n").find((each) => each.startsWith(endpoint.id));
  t.true(line?.includes("Test Organization"), line);
  const listed = z
    .array(z.looseObject({ id: z.string(), last_error: z.string().nullable() }))
    .parse(readJson(await impact("webhook", "list", "--json")));
  t.is(listed.find(({ id }) => id === endpoint.id)?.last_error, "status 400");
  t.regex((await impact("webhook", "show", endpoint.id)).stdout, /last error +status 400\n/u);
  const failed = await impact("webhook", "deliveries", endpoint.id, "--state", "failed");
  t.regex(failed.stdout, /evt_\w+ +registration\.refunded +pending +1 /u);

  receiver.respond(answer(204));
  pass(1000);
  t.like(await recoverWebhookEvents(deps, endpoint, since), { recovered: 1 });
  t.like(await recoverWebhookEvents(deps, endpoint, since), { recovered: 0 });
  await deliver();
  t.deepEqual(names(), ["failing", "failing"]);
  t.like(await deliveries(), [{ state: "delivered", attempts: 2 }]);
  const none = await impact("webhook", "deliveries", endpoint.id, "--state", "failed", "--json");
  t.deepEqual(readJson(none), []);
});

const LONG_METADATA = { note: "x".repeat(16_000) };

const donated = (name: string) => ({
  type: "donation.created" as const,
  data: {
    donation_id: name,
    amount_cents: 500,
    currency: "USD" as const,
    ein: "53-0196605",
    nonprofit_id: "",
    charity_name: "Red Cross",
    idempotency_key: name,
    attribution: name,
    metadata: LONG_METADATA,
  },
});

/** Opens a pool that counts the bytes of the rows that it reads. */
const openCountingPool = async (t: ExecutionContext<DatabaseContext>) => {
  let bytes = 0;
  const db = await openTestPool(t, t.context.databaseUrl, 2, {
    interceptors: [
      {
        name: "count-bytes",
        transformRow: (_context, _query, row) => {
          bytes += JSON.stringify(row).length;
          return row;
        },
      },
    ],
  });
  return { db, bytesRead: () => bytes };
};

test("a recovery does not read what webhooks do not send", async (t) => {
  const { deps, accountId, endpoint, clock } = await setUp(t);
  await switchWebhookEndpoint(deps, endpoint, "disabled");
  const donations = Array.from({ length: 50 }, (_, index) => donated(`d${index}`));
  await recordEvents(deps.db, { accountId, mode: "live" }, clock.now(), donations);
  await switchWebhookEndpoint(deps, endpoint, "enabled");
  const { db, bytesRead } = await openCountingPool(t);

  t.like(await recoverWebhookEvents({ ...deps, db }, endpoint, clock.now()), { recovered: 50 });
  t.true(bytesRead() < LONG_METADATA.note.length, `${bytesRead()} bytes`);
});

test("5,000 events are recovered at a time, and a repeated call continues", async (t) => {
  const { deps, accountId, endpoint, clock } = await setUp(t);
  await switchWebhookEndpoint(deps, endpoint, "disabled");
  const refunds = Array.from({ length: 5001 }, (_, index) => refunded(`r${index}`));
  await recordEvents(deps.db, { accountId, mode: "live" }, clock.now(), refunds);
  await switchWebhookEndpoint(deps, endpoint, "enabled");
  const recover = () => recoverWebhookEvents(deps, endpoint, clock.now());

  t.deepEqual(await recover(), { recovered: 5000, hasMore: true });
  t.deepEqual(await recover(), { recovered: 1, hasMore: false });
});

test("a recovered event has the body of its first delivery", async (t) => {
  const { deps, accountId, endpoint, deliver, receiver, clock } = await setUp(t);
  const owner = { accountId, mode: "live" as const };
  const contents = [donated('"quoted"\n'), refunded("r")];
  await recordEvents(deps.db, owner, clock.now(), contents);
  await deliver();
  await deps.db.query(sql.typeAlias("void")`
    DELETE FROM webhook_delivery WHERE endpoint_id = ${endpoint.id}
  `);

  t.like(await recoverWebhookEvents(deps, endpoint, clock.now()), { recovered: 2 });
  await deliver();
  const bodies = receiver.received.map(({ body }) => body);
  t.deepEqual(bodies.slice(2).toSorted(), bodies.slice(0, 2).toSorted());
  t.is(bodies.length, 4);
});

test("events are recovered from 14 days back at most", async (t) => {
  const { deps, endpoint, record, pass, clock } = await setUp(t);
  await switchWebhookEndpoint(deps, endpoint, "disabled");
  const since = clock.now();
  await record("old");
  await switchWebhookEndpoint(deps, endpoint, "enabled");
  pass(14 * DAY_MS);
  t.like(await recoverWebhookEvents(deps, endpoint, since), { recovered: 1 });
  pass(1);
  for (const time of [since, new Date(clock.now().getTime() + 1)]) {
    t.throws(() => recoverWebhookEvents(deps, endpoint, time), {
      message: "since: must be a time of the last 14 days",
    });
  }
});

test("a recovery is made for the endpoint's account, mode and types only", async (t) => {
  const first = await setUp(t);
  const second = await setUp(t);
  const { deps, endpoint, clock } = first;
  await switchWebhookEndpoint(deps, endpoint, "disabled");
  await first.record("test mode", "test");
  await second.record("another account");
  await switchWebhookEndpoint(deps, endpoint, "enabled");
  t.like(await recoverWebhookEvents(deps, endpoint, new Date(clock.now().getTime() - DAY_MS)), {
    recovered: 0,
  });
});

test("deliveries and their attempts can be read, and one can be made again, over HTTP", async (t) => {
  const { deps, accountId, endpoint, record, deliver, receiver } = await setUp(t);
  const { db } = deps;
  const { call } = await startStandaloneApi(t, { db, clock: deps.clock });
  const account = { id: accountId, type: "organization" as const };
  const { key } = await issueKey(deps, account, "live");
  receiver.respond(answer(503, {}, "busy"));
  await record("first");
  await deliver();
  receiver.respond(answer(200));
  await record("second");
  await deliver();

  const path = `/webhook_endpoints/${endpoint.id}/deliveries`;
  const rows = z.object({
    deliveries: z.array(z.looseObject({ id: z.string(), state: z.string() })),
    has_more: z.boolean(),
  });
  const list = async (query: string) =>
    rows.parse((await call("GET", `${path}${query}`, { key })).body);
  const all = await list("");
  t.deepEqual(all.deliveries.map(({ state }) => state).toSorted(), ["delivered", "pending"]);
  const { deliveries, has_more: hasMore } = await list("?limit=1");
  t.deepEqual([deliveries, hasMore], [all.deliveries.slice(0, 1), true]);
  const rest = await list(`?limit=1&starting_after=${deliveries[0]?.id}`);
  t.deepEqual(rest, { deliveries: all.deliveries.slice(1), has_more: false });
  const [failed] = (await list("?state=pending")).deliveries;
  const one = await call("GET", `${path}/${failed?.id}`, { key });
  t.like(one.body, {
    ...failed,
    attempts: [{ number: 1, status: 503, error: "status 503", response: "busy" }],
  });

  const [done] = (await list("?state=delivered")).deliveries;
  const retried = await call("POST", `${path}/${done?.id}/retry`, { key });
  t.like(retried, { status: 200, body: { state: "pending", attempt_count: 1 } });
  await deliver();
  t.is(receiver.received.length, 3);
  t.like(await call("POST", `/webhook_endpoints/${endpoint.id}/recover`, { key, body: {} }), {
    status: 400,
    body: { error: "since: required" },
  });
  const since = deps.clock.now().toISOString();
  const recovered = await call("POST", `/webhook_endpoints/${endpoint.id}/recover`, {
    key,
    body: { since },
  });
  t.like(recovered, { status: 200, body: { recovered_count: 1, has_more: false } });
  await deliver();
  t.is(receiver.received.length, 4);

  const other = await createTestOrganization(db);
  for (const [method, target] of [
    ["GET", path],
    ["GET", `${path}/${done?.id}`],
    ["POST", `${path}/${done?.id}/retry`],
  ] as const) {
    t.is((await call(method, target, { key: other.apiKeyProd })).status, 404);
  }
  t.is((await call("GET", `${path}/evt_x`, { key })).status, 404);
  t.is((await call("GET", `${path}?starting_after=evt_x`, { key })).status, 400);
});

test("a delivery of a type that this release does not know is listed, and is made again", async (t) => {
  const { deps, accountId, endpoint, record } = await setUp(t);
  const { db } = deps;
  const { call } = await startStandaloneApi(t, { db, clock: deps.clock });
  const { key } = await issueKey(deps, { id: accountId, type: "organization" }, "live");
  await record("first");
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery SET type = 'later.type' WHERE endpoint_id = ${endpoint.id}
  `);
  const path = `/webhook_endpoints/${endpoint.id}/deliveries`;
  const list = await call("GET", path, { key });
  t.like(list, { status: 200, body: { deliveries: [{ type: "later.type" }] } });
  const rows = z.object({ deliveries: z.array(z.looseObject({ id: z.string() })) });
  const id = rows.parse(list.body).deliveries[0]?.id;
  t.like(await call("POST", `${path}/${id}/retry`, { key }), {
    status: 200,
    body: { type: "later.type", state: "pending" },
  });
});

test("a retry begins the schedule again", async (t) => {
  const { deps, endpoint, record, deliver, receiver, pass, deliveries } = await setUp(t);
  receiver.respond(answer(500));
  const success = {
    endpointId: endpoint.id,
    url: endpoint.url,
    hasSucceeded: true,
    failedAt: null,
  };
  await record("first");
  for (let attempt = 0; attempt < 10; attempt += 1) {
    await deliver();
    pass(25 * 60 * 60 * 1000);
    if (attempt === 4) {
      // Five days of failures would disable it.
      await recordEndpointResults(deps.db, [success]);
    }
  }
  t.like(await deliveries(), [{ state: "failed", attempts: 10 }]);
  const id = receiver.received[0]?.headers["webhook-id"] ?? "";
  await recordEndpointResults(deps.db, [success]);
  await retryWebhookDelivery(deps, endpoint, id);
  t.is(await deliver(), 5000);
  t.like(await deliveries(), [{ state: "pending", attempts: 11 }]);
});

test("a lease from before the clock was set back does not delay a delivery", async (t) => {
  const { deps, endpoint, record, receiver, deliver, pass } = await setUp(t);
  await record("first");
  pass(2 * HOUR_MS);
  const arrived = Promise.withResolvers<void>();
  receiver.respond(() => arrived.resolve());
  const stop = new AbortController();
  const killed = createDeliveriesTo(deps, endpoint.id)(stop.signal);
  await arrived.promise;

  pass(-HOUR_MS);
  receiver.respond(answer(204));
  await deliver();

  t.is(receiver.received.length, 2);
  stop.abort();
  await killed;
});

test("deliveries whose time was recorded before the clock was set back become due, and planned retries do not", async (t) => {
  const { deps, record, receiver, deliver, deliveries, pass, clock } = await setUp(t);
  receiver.respond(answer(500));
  // Later than the deliveries of other tests.
  pass(1000 * DAY_MS);
  await record("retried");
  await deliver();
  const planned = await deliveries();
  pass(HOUR_MS);
  await record("new");
  const isDue = async () =>
    (await deliveries()).map(({ dueAt }) => dueAt !== null && dueAt <= clock.now());

  pass(-HOUR_MS);
  await makeFutureDeliveriesDue(deps.db, clock.now());
  t.deepEqual(await isDue(), [false, true]);
  t.deepEqual((await deliveries())[0], planned[0]);

  pass(-100 * DAY_MS);
  await makeFutureDeliveriesDue(deps.db, clock.now());
  t.deepEqual(await isDue(), [true, true]);
});

test("deliveries are deleted after 30 days, and those of a deleted endpoint with it", async (t) => {
  // A database of its own, because it deletes the deliveries of all endpoints.
  const db = await openTestPool(t, await copyDatabase(t));
  t.context = { ...t.context, db };
  const { deps, endpoint, record, deliver, deliveries, pass } = await setUpWebhooks(t);
  const clean = () => deleteOldDeliveries(deps, new AbortController().signal);
  await record("old");
  await deliver();
  pass(30 * DAY_MS - 1);
  await record("new");
  await deliver();
  await clean();
  t.is((await deliveries()).length, 2);
  pass(1);
  await clean();
  t.is((await deliveries()).length, 1);
  await deleteWebhookEndpoint(deps, endpoint);
  pass(DAY_MS);
  await clean();
  t.deepEqual(await deliveries(), []);
  await clean();
  const { rowCount } = await deps.db.query(sql.typeAlias("void")`
    SELECT FROM webhook_endpoint WHERE id = ${endpoint.id}
  `);
  t.is(rowCount, 0);
});
