import { setTimeout as delay } from "node:timers/promises";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { LEASE_MS } from "../../modules/events/decideDelivery.rules.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import {
  rotateWebhookSecret,
  deleteWebhookEndpoint,
  pingWebhookEndpoint,
  createWebhookEndpoint,
  updateWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { refunded, readEvents } from "./readEvents.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { answer, startReceiver } from "./startReceiver.ts";
import { setUpWebhooks, verify, createDeliveriesTo } from "./webhookScene.ts";
import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import { findEndpoint } from "../../modules/events/endpoints.sql.ts";

const test = testWithDatabase();

const SECOND_MS = 1000;

test("an event is delivered once, signed, with the id that the feed has", async (t) => {
  const { deps, accountId, record, deliver, receiver, secret, deliveries } = await setUpWebhooks(t);
  await record("first");
  t.is(await deliver(), null);
  await deliver();

  const [request, ...others] = receiver.received;
  t.deepEqual(others, []);
  const { type, timestamp, data } = verify(request ?? { body: "", headers: {} }, secret);
  const [event] = await readEvents(deps, { accountId, mode: "live" });
  const id = event?.id ?? "";
  t.is(type, "registration.refunded");
  t.is(timestamp, event?.createdAt.toISOString() ?? "");
  const content = { registration_id: "first", kind: "tree", count: 1, remaining_count: 0 };
  t.deepEqual(data, { ...content, sequence: Number(event?.transactionId) });
  t.regex(request?.headers["webhook-id"] ?? "", /^evt_[0-9a-f]{48}$/u);
  t.true(request?.headers["webhook-id"]?.endsWith(id.replaceAll("-", "")));
  t.is(request?.headers["content-type"], "application/json");
  t.like(await deliveries(), [{ state: "delivered", attempts: 1, dueAt: null }]);
});

test("no text that a client or an operator wrote is delivered", async (t) => {
  const { deps, owner, clock, deliver, receiver, secret } = await setUpWebhooks(t);
  const donation = {
    donation_id: "d",
    amount_cents: 500,
    currency: "USD" as const,
    ein: "53-0196605",
    nonprofit_id: "",
    charity_name: "Red Cross",
  };
  const personal = { idempotency_key: "PERSONAL", attribution: "PERSONAL" };
  const refund = refunded("r");
  for (const content of [
    {
      type: "donation.created" as const,
      data: { ...donation, ...personal, metadata: { email: "PERSONAL" } },
    },
    { type: "donation.refunded" as const, data: { ...donation, reason: "PERSONAL" } },
    { ...refund, data: { ...refund.data, reason: "PERSONAL" } },
  ]) {
    await recordEvent(deps.db, owner, clock.now(), content);
  }
  await deliver();
  t.is(receiver.received.length, 3);
  for (const request of receiver.received) {
    verify(request, secret);
    t.notRegex(request.body, /PERSONAL/u);
  }
});

test("an event of another account, mode or type is not delivered, and a rolled back one neither", async (t) => {
  const first = await setUpWebhooks(t, { types: ["donation.created"] });
  const second = await setUpWebhooks(t);
  await first.record("wrong type");
  await second.record("test mode", "test");
  await t.throwsAsync(
    second.deps.db.transaction(async (transaction) => {
      const owner = { accountId: second.accountId, mode: "live" as const };
      await recordEvent(transaction, owner, second.clock.now(), refunded("rolled back"));
      throw new Error("roll back");
    }),
    { message: "roll back" },
  );
  await first.deliver();
  await second.deliver();
  t.deepEqual([...first.receiver.received, ...second.receiver.received], []);
});

test("a failed delivery is repeated with the same id and body and a new timestamp, as the schedule says", async (t) => {
  const { record, deliver, receiver, secret, pass, deliveries, clock } = await setUpWebhooks(t);
  receiver.respond(answer(500));
  await record("first");
  t.is(await deliver(), 5 * SECOND_MS);
  pass(5 * SECOND_MS - 1);
  t.is(await deliver(), 1);
  t.is(receiver.received.length, 1);
  pass(1);
  t.is(await deliver(), 300 * SECOND_MS);
  pass(300 * SECOND_MS);
  receiver.respond(answer(429, { "Retry-After": "3000" }));
  await deliver();
  t.like(await deliveries(), [
    { state: "pending", attempts: 3, dueAt: new Date(clock.now().getTime() + 3000 * SECOND_MS) },
  ]);
  receiver.respond(answer(200));
  pass(3000 * SECOND_MS);
  await deliver();

  t.is(receiver.received.length, 4);
  const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
  t.is(new Set(ids).size, 1);
  t.is(new Set(receiver.received.map(({ body }) => body)).size, 1);
  const [oldest] = receiver.received;
  t.truthy(verify(oldest ?? { body: "", headers: {} }, secret));
  const timestamps = receiver.received.map(({ headers }) => headers["webhook-timestamp"]);
  t.is(new Set(timestamps).size, 4);
  t.like(await deliveries(), [{ state: "delivered", attempts: 4 }]);
});

test("a delivery that fails does not delay later events, and ten are in flight at most", async (t) => {
  const { record, deliver, receiver, deliveries } = await setUpWebhooks(t);
  const held: (() => void)[] = [];
  receiver.respond((response) => void held.push(() => response.writeHead(204).end()));
  for (let count = 0; count < 25; count += 1) {
    await record(String(count));
  }
  const delivering = deliver();
  await eventually(() => held.length === 10);
  // Long enough for an eleventh, also after the first second of the requests.
  await delay(1300);
  t.is(held.length, 10);
  receiver.respond(answer(204));
  held.forEach((release) => release());
  await delivering;
  t.is(receiver.received.length, 25);
  t.is(receiver.mostAtOnce(), 10);
  t.true((await deliveries()).every(({ state }) => state === "delivered"));
});

test("a replaced secret signs for 24 hours more, unless it is replaced again", async (t) => {
  const { deps, endpoint, secret: first, record, deliver, receiver, pass } = await setUpWebhooks(t);
  const rotate = async () => (await rotateWebhookSecret(deps, endpoint)).secret;
  const check = async (signing: readonly string[], others: readonly string[]): Promise<void> => {
    await record(crypto.randomUUID());
    await deliver();
    const last = receiver.received.at(-1) ?? t.fail();
    t.is(last.headers["webhook-signature"]?.split(" ").length, signing.length);
    for (const secret of signing) {
      verify(last, secret);
    }
    for (const secret of others) {
      t.throws(() => verify(last, secret));
    }
  };
  const second = await rotate();
  await check([second, first], []);
  const third = await rotate();
  await check([third, second], [first]);
  pass(DAY_MS);
  await record("a day later");
  await deliver();
  t.notRegex(receiver.received.at(-1)?.headers["webhook-signature"] ?? "", / /u);
});

test("a delivery that a stopping worker interrupts is made again by another after its lease", async (t) => {
  const { record, deliver, receiver, deliveries, pass } = await setUpWebhooks(t);
  const stop = new AbortController();
  receiver.respond(() => stop.abort());
  await record("first");
  await deliver(stop.signal);
  t.like(await deliveries(), [{ state: "pending", attempts: 0 }]);
  receiver.respond(answer(204));
  await deliver();
  t.is(receiver.received.length, 1);
  pass(LEASE_MS);
  await deliver();
  const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
  t.deepEqual([ids.length, new Set(ids).size], [2, 1]);
});

for (const [late, early, attempts] of [
  [500, 204, 1],
  [204, 500, 2],
] as const) {
  test(`while a worker makes an attempt no other makes it; a late ${late} after a ${early} leaves the event delivered`, async (t) => {
    const { deps, endpoint, record, deliver, receiver, deliveries, pass } = await setUpWebhooks(t);
    const held = Promise.withResolvers<() => void>();
    receiver.respond((response) => held.resolve(() => answer(late)(response)));
    await record("first");
    const slow = createDeliveriesTo(deps, endpoint.id)();
    const release = await held.promise;
    receiver.respond(answer(early));
    await deliver();
    t.is(receiver.received.length, 1);
    // As if the first worker's process had stood still.
    pass(60 * SECOND_MS);
    await deliver();
    t.is(receiver.received.length, 2);
    release();
    await slow;
    t.like(await deliveries(), [{ state: "delivered", attempts }]);
  });
}

test("nothing is delivered to a disabled or a deleted endpoint; what was pending waits until it is enabled", async (t) => {
  const { deps, endpoint, record, deliver, receiver, setStatus } = await setUpWebhooks(t);
  await record("pending");
  await setStatus("disabled");
  await record("meanwhile");
  await deliver();
  t.deepEqual(receiver.received, []);
  await setStatus("enabled");
  await deliver();
  t.is(receiver.received.length, 1);
  t.regex(receiver.received[0]?.body ?? "", /"pending"/u);
  await record("after");
  await deleteWebhookEndpoint(deps, endpoint);
  await record("deleted");
  await deliver();
  t.is(receiver.received.length, 1);
});

test("a ping arrives whatever types the endpoint has, and is no event of the feed", async (t) => {
  const { deps, accountId, endpoint, secret, deliver, receiver } = await setUpWebhooks(t, {
    types: ["donation.created"],
  });
  const id = await pingWebhookEndpoint(deps, endpoint);
  await deliver();
  const [request] = receiver.received;
  t.is(request?.headers["webhook-id"], id);
  const ping = { type: "ping", data: { endpoint_id: endpoint.id } };
  t.like(verify(request ?? { body: "", headers: {} }, secret), ping);
  t.deepEqual(await readEvents(deps, { accountId, mode: "live" }), []);
});

test("a 410 disables the endpoint, and its owner learns of it by an event in the feed and at other endpoints", async (t) => {
  const { deps, owner, endpoint, record, deliver, receiver, ...scene } = await setUpWebhooks(t);
  const elsewhere = await startReceiver(t);
  const given = { url: elsewhere.url, types: ["webhook_endpoint.disabled"], description: "" };
  const { endpoint: other } = await createWebhookEndpoint(deps, owner, given);
  receiver.respond(answer(500));
  await record("first");
  await deliver();
  receiver.respond(answer(410));
  await record("second");
  await deliver();
  const gone = { disabledReason: "gone", lastError: "status 410" };
  t.like(await findEndpoint(deps.db, endpoint.id), gone);
  t.is(scene.disabled.length, 1);
  await record("third");
  await deliver();
  const nothing = "a disabled endpoint receives nothing, and nothing is recorded for it";
  t.is(receiver.received.length, 2, nothing);
  const { accountId } = endpoint;
  const entries = await listAuditEntries(deps.db, { accountId, action: "webhook.disable" }, 10);
  t.like(entries, { 0: { actor: "service", subject: endpoint.id }, length: 1 });

  const shown = { disabled_reason: "gone", last_error: "status 410" };
  const url_origin = new URL(endpoint.url).origin;
  const data = { endpoint_id: endpoint.id, url_origin, ...shown };
  const types = ["webhook_endpoint.disabled"] as const;
  t.like(await readEvents(deps, owner, { types }), { 0: { data }, length: 1 });
  await createDeliveriesTo(deps, other.id)();
  const [request = t.fail()] = elsewhere.received;
  t.like(verify(request, other.secret), { type: "webhook_endpoint.disabled", data });

  t.like(await scene.setStatus("enabled"), { disabledReason: null, failingSince: null });
  receiver.respond(answer(204));
  scene.pass(5 * SECOND_MS);
  await deliver();
  const states = (await scene.deliveries()).map(({ state }) => state);
  t.deepEqual(states, ["delivered", "failed"], "what was pending is sent when it is enabled");
});

/** Records an event, and makes all its attempts fail. */
const failCompletely = async (scene: Awaited<ReturnType<typeof setUpWebhooks>>) => {
  const { record, deliver, receiver, pass } = scene;
  receiver.respond(answer(500));
  await record(crypto.randomUUID());
  for (let dueMs = await deliver(); dueMs !== null; dueMs = await deliver()) {
    pass(dueMs);
  }
};

test("five days of nothing but failures disable an endpoint; a success in between restarts the count", async (t) => {
  const scene = await setUpWebhooks(t);
  const { deps, endpoint, record, deliver, receiver } = scene;
  await failCompletely(scene);
  receiver.respond(answer(204));
  await record("success");
  await deliver();
  t.like(await findEndpoint(deps.db, endpoint.id), { failingSince: null, lastError: null });
  await failCompletely(scene);
  t.like(await findEndpoint(deps.db, endpoint.id), { disabledReason: null });
  await failCompletely(scene);
  t.like(await findEndpoint(deps.db, endpoint.id), { disabledReason: "failing" });
});

test("a failure long after the last one is retried before the endpoint is disabled", async (t) => {
  const scene = await setUpWebhooks(t);
  const { deps, endpoint, record, deliver, receiver, pass, deliveries } = scene;
  await failCompletely(scene);
  pass(20 * DAY_MS);
  await record("during a restart");
  t.is(await deliver(), 5 * SECOND_MS);
  t.like(await findEndpoint(deps.db, endpoint.id), { disabledReason: null });
  receiver.respond(answer(204));
  pass(5 * SECOND_MS);
  await deliver();
  t.like((await deliveries()).at(-1), { state: "delivered", attempts: 2 });
});

test("failures of an endpoint's earlier URL are not those of the new one", async (t) => {
  const { deps, endpoint, record, deliver, receiver } = await setUpWebhooks(t);
  receiver.respond(answer(500));
  await record("first");
  await deliver();
  const described = await updateWebhookEndpoint(deps, endpoint, { description: "old server" });
  t.not(described.failingSince, null);

  const moved = await updateWebhookEndpoint(deps, endpoint, { url: `${endpoint.url}/new` });
  t.like(moved, { failingSince: null, lastError: null });
});
