import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { issueKey } from "../../modules/accounts/manageKeys.ts";
import { insertEvents } from "../../modules/events/events.sql.ts";
import { createEvent, recordEvent } from "../../modules/events/recordEvent.ts";
import { recoverWebhookEvents } from "../../modules/events/recoverWebhookEvents.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { impactOf } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import type { StoredEventContent } from "../../modules/events/events.rules.ts";
import { refunded } from "./readEvents.ts";
import { answer } from "./startReceiver.ts";
import { setUpWebhooks, verify } from "./webhookScene.ts";

const test = testWithDatabase();

/** Of one recovery. */
const PART = 5000;

const setUp = async (t: DatabaseTest, options: Parameters<typeof setUpWebhooks>[1] = {}) => {
  const scene = await setUpWebhooks(t, options);
  const { deps, owner, endpoint, receiver, secret, clock, setStatus } = scene;
  return {
    ...scene,
    names: () =>
      receiver.received.map((request) => String(verify(request, secret).data["registration_id"])),
    recover: (since: Date = clock.now()) => recoverWebhookEvents(deps, endpoint, { since }),
    /** Records events that the endpoint misses, because it is disabled. */
    miss: async (contents: readonly StoredEventContent[]) => {
      await setStatus("disabled");
      const events = contents.map((content) => createEvent(owner, content));
      await insertEvents(deps.db, events, clock.now());
      await setStatus("enabled");
    },
    /** Starts an API, and returns what calls it about the endpoint. */
    startApi: async () => {
      const { call } = await startStandaloneApi(t, { db: deps.db, clock });
      const { key } = await issueKey(deps, { id: owner.accountId, type: "organization" }, "live");
      return (method: string, rest: string, body?: object) =>
        call(method, `/webhook_endpoints/${endpoint.id}${rest}`, { key, ...(body && { body }) });
    },
  };
};

test("what was recorded while an endpoint was disabled and what failed is recovered, once", async (t) => {
  const { record, deliver, receiver, pass, clock, names, setStatus, recover, deps } =
    await setUp(t);
  await record("before");
  await deliver();
  pass(1);
  const since = clock.now();
  receiver.respond(answer(500));
  await record("failed");
  await deliver();
  const disabled = await setStatus("disabled");
  await record("meanwhile");
  await t.throwsAsync(recoverWebhookEvents(deps, disabled, { since }), { message: /is disabled/u });
  await setStatus("enabled");
  receiver.respond(answer(204));
  await record("after");

  t.deepEqual(await recover(since), { recovered: 2, hasMore: false });
  await deliver();
  t.deepEqual(names().toSorted(), ["after", "before", "failed", "failed", "meanwhile"]);
  const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
  t.is(new Set(ids).size, 4);
  t.like(await recover(since), { recovered: 0 });
});

test("operators see why an endpoint fails, list what fails, and a recovery sends it now and begins the schedule again", async (t) => {
  const { endpoint, record, deliver, deliveries, receiver, clock, pass, names, recover } =
    await setUp(t);
  const impact = impactOf(t);
  receiver.respond(answer(400));
  await record("failing");
  const since = clock.now();
  t.true(Number(await deliver()) > 0);
  t.like(await deliveries(), [{ state: "pending", attempts: 1, error: "status 400" }]);

  const list = await impact("webhook", "list");
  const line = list.stdout.split("\n").find((each) => each.startsWith(endpoint.id));
  t.true(line?.includes(`${since.toISOString()}  status 400`), list.stdout);
  t.true(line?.includes("Test Organization"), line);
  t.regex((await impact("webhook", "show", endpoint.id)).stdout, /^last error +status 400$/mu);
  const shown = await impact.json("webhook", "show", endpoint.id);
  t.like(shown, { status: "enabled", last_error: "status 400" });
  const failed = await impact("webhook", "deliveries", endpoint.id, "--state", "failed");
  t.regex(failed.stdout, /evt_\w+ +registration\.refunded +pending +1 .*status 400/u);

  pass(1000);
  t.like(await recover(since), { recovered: 1 });
  t.like(await recover(since), { recovered: 0 });
  t.is(await deliver(), 5000, "the schedule begins again");
  receiver.respond(answer(204));
  t.like(await recover(since), { recovered: 1 });
  await deliver();
  t.deepEqual(names(), ["failing", "failing", "failing"]);
  t.like(await deliveries(), [{ state: "delivered", attempts: 1 }]);
  t.deepEqual(await impact.json("webhook", "deliveries", endpoint.id, "--state", "failed"), []);
});

test("5,000 events are recovered at a time, and a repeated call continues, also over HTTP", async (t) => {
  const { deps, endpoint, miss, recover, clock, startApi } = await setUp(t);
  await miss(Array.from({ length: 2 * PART + 1 }, (_, index) => refunded(`r${index}`)));
  t.deepEqual(await recover(), { recovered: PART, hasMore: true });
  // What fails again before the place where a recovery continues is recovered as well.
  await deps.db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery SET state = 'failed', due_at = NULL WHERE endpoint_id = ${endpoint.id}
  `);
  const call = await startApi();
  const body = { since: clock.now().toISOString() };
  for (const [recovered_count, has_more] of [
    [PART, true],
    [PART, true],
    [1, false],
    [0, false],
  ]) {
    t.deepEqual((await call("POST", "/recover", body)).body, { recovered_count, has_more });
  }
});

test("events are recovered from 14 days back at most", async (t) => {
  const { pass, clock, miss, recover } = await setUp(t);
  const since = clock.now();
  await miss([refunded("old")]);
  pass(14 * DAY_MS);
  t.like(await recover(since), { recovered: 1 });
  pass(1);
  for (const time of [since, new Date(clock.now().getTime() + 1)]) {
    await t.throwsAsync(recover(time), { message: "since: must be a time of the last 14 days" });
  }
});

test("a recovery is made for the endpoint's account, mode and types only", async (t) => {
  const first = await setUp(t, { types: ["usage.failed", "usage.failed"] });
  const second = await setUp(t);
  const data = { kind: "tree", count: 1, registered_at: "2026-01-01T00:00:00.000Z" } as const;
  await first.miss([{ type: "usage.failed", data }, refunded("another type")]);
  await first.record("test mode", "test");
  await second.record("another account");
  t.like(await first.recover(new Date(first.clock.now().getTime() - DAY_MS)), { recovered: 1 });
});

const listed = z.object({
  deliveries: z.array(z.looseObject({ id: z.string(), state: z.string() })),
});

test("deliveries can be read with their last attempt, and one event can be sent again, over HTTP", async (t) => {
  const { record, deliver, receiver, startApi, clock } = await setUp(t);
  const call = await startApi();
  receiver.respond(answer(503));
  await record("first");
  await deliver();
  receiver.respond(answer(200));
  await record("second");
  await deliver();

  const list = async (query: string) =>
    listed.parse((await call("GET", `/deliveries${query}`)).body);
  const all = await list("");
  t.deepEqual(all.deliveries.map(({ state }) => state).toSorted(), ["delivered", "pending"]);
  t.deepEqual(await list("?limit=1"), { deliveries: all.deliveries.slice(0, 1) });
  for (const state of ["pending", "failed"]) {
    t.like((await list(`?state=${state}`)).deliveries, {
      0: { last_attempt: { status: 503, error: "status 503" } },
      length: 1,
    });
  }

  const [done] = (await list("?state=delivered")).deliveries;
  const one = { event_id: done?.id };
  t.like(await call("POST", "/recover", one), { status: 200, body: { recovered_count: 1 } });
  t.like(await list("?state=pending"), { deliveries: { length: 2 } });
  await deliver();
  t.is(receiver.received.length, 3);
  t.like(await call("POST", "/recover", {}), { status: 400, body: { error: "since: required" } });
  const recovered = await call("POST", "/recover", { since: clock.now().toISOString() });
  t.like(recovered, { status: 200, body: { recovered_count: 1, has_more: false } });
  await deliver();
  t.is(receiver.received.length, 4);

  const unknown = await call("POST", "/recover", { event_id: "evt_x" });
  t.like(unknown, { status: 404, body: { error: "event not found" } });
});

test("an event of a type that this release does not know is listed, and is sent again", async (t) => {
  const { deps, owner, record, startApi, deliver, receiver } = await setUp(t);
  const call = await startApi();
  await record("first");
  await deps.db.query(sql.typeAlias("void")`
    UPDATE event SET type = 'later.type' WHERE account_id = ${owner.accountId}
  `);
  await deliver();
  const list = await call("GET", "/deliveries");
  t.like(list, { status: 200, body: { deliveries: [{ type: "later.type" }] } });
  const id = listed.parse(list.body).deliveries[0]?.id;
  t.is((await call("POST", "/recover", { event_id: id })).status, 200);
  await deliver();
  t.is(receiver.received.length, 2);
  t.true(receiver.received.every(({ body }) => body.startsWith('{"type":"later.type"')));
});

test("an event whose transaction is open while the endpoint is disabled or enabled arrives once", async (t) => {
  const { deps, owner, clock, names, deliver, setStatus, recover } = await setUp(t);
  const since = clock.now();
  /** Records an event in a transaction that is open while a function runs. */
  const recordAround = (name: string, during: () => Promise<unknown>) =>
    deps.db.transaction(async (transaction) => {
      await recordEvent(transaction, owner, clock.now(), refunded(name));
      await during();
    });
  await recordAround("before it was disabled", () => setStatus("disabled"));
  await recordAround("before it was enabled", () => setStatus("enabled"));
  await deliver();
  t.deepEqual(names(), ["before it was disabled"]);
  t.like(await recover(since), { recovered: 1 });
  await deliver();
  t.deepEqual(names(), ["before it was disabled", "before it was enabled"]);
  t.like(await recover(since), { recovered: 0 });
});
