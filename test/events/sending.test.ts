import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { findEndpoint } from "../../modules/events/endpoints.sql.ts";
import { claimDeliveries } from "../../modules/events/attempts.sql.ts";
import type { ClaimedDelivery, EndedAttempt } from "../../modules/events/attempts.sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { LEASE_MS } from "../../modules/events/decideDelivery.rules.ts";
import { SHARDS } from "../../db/shards.rules.ts";
import { createWebhookSender } from "../../modules/events/createWebhookSender.ts";
import { newId } from "../../runtime/newId.ts";
import { newSecret } from "../../modules/events/manageWebhookEndpoints.ts";
import { createAttemptRecords, makeAttempt } from "../../modules/events/makeAttempt.ts";
import {
  createDeliveryRuns,
  createEndpointScans,
} from "../../modules/events/createDeliveryRuns.ts";
import type { DeliveryContext } from "../../modules/events/context.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { holdOpen, startReceiver } from "./startReceiver.ts";
import { setUpWebhooks } from "./webhookScene.ts";

// Serial, because a shard makes the deliveries of all endpoints in the file's database.
const test = testWithDatabase();

const SHARD = 1;
const RUN_MS = 200;
const SETTINGS = { allowsHttp: true, allowedNetworks: ["127.0.0.0/8"] };

const insertDeliveries = async (
  db: DatabasePool,
  endpointIds: readonly string[],
  count: number,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
    SELECT id, gen_random_uuid(), 'ping', now(), '{}', now(), now() - make_interval(secs => number)
    FROM unnest(${sql.array([...endpointIds], "uuid")}) AS id
    CROSS JOIN generate_series(1, ${count}) AS number
  `);
};

/** Creates endpoints of the shard with due deliveries. */
const insertEndpoints = async (
  db: DatabasePool,
  {
    url,
    count,
    deliveries,
  }: { readonly url: string; readonly count: number; readonly deliveries: number },
): Promise<readonly string[]> => {
  const { id: accountId } = await createTestOrganization(db);
  const ids = Array.from({ length: count }, () => `${newId().slice(0, -2)}0${SHARD}`);
  await db.query(sql.typeAlias("void")`
    WITH endpoint AS (
      INSERT INTO webhook_endpoint (id, account_id, mode, url, description, created_at)
      SELECT id, ${accountId}, 'live', ${url} || '?' || id, '', now()
      FROM unnest(${sql.array(ids, "uuid")}) AS id
      RETURNING id
    )
    INSERT INTO webhook_secret (endpoint_id, secret, created_at)
    SELECT id, ${newSecret()}, now()
    FROM endpoint
  `);
  await insertDeliveries(db, ids, deliveries);
  return ids;
};

const dependenciesOf = (db: DatabasePool): DeliveryContext => ({
  db,
  clock: systemClock,
  send: createWebhookSender(SETTINGS),
  random: () => 0.5,
  observeAttempt: () => undefined,
  observeDisabled: () => undefined,
});

const throwError = (_delivery: unknown, error: unknown): never => {
  throw error;
};

/** Makes the deliveries of the shard in short runs, one after the other, as its workflow does, until the test ends. */
const runShard = (t: ExecutionContext<DatabaseContext>) => {
  const shards = createDeliveryRuns(dependenciesOf(t.context.db), {
    onFailure: throwError,
    runMs: RUN_MS,
  });
  const [stop, abort] = [new AbortController(), new AbortController()];
  const counts = { runs: 0 };
  const run = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      await shards.run(SHARD, { stop: stop.signal, signal: abort.signal });
      counts.runs += 1;
    }
    await shards.end();
  };
  const ended = run();
  t.teardown(() => {
    stop.abort();
    abort.abort();
    return ended;
  });
  return { counts, ended, stop: () => stop.abort(), abort: () => abort.abort() };
};

const stateRow = z.strictObject({ state: z.string(), attempts: z.int(), isLeased: z.boolean() });

const readStates = (db: DatabasePool, endpointId: string) =>
  db.any(sql.type(stateRow)`
    SELECT state, attempts, leased_until IS NOT NULL AS "isLeased"
    FROM webhook_delivery
    WHERE endpoint_id = ${endpointId}
    ORDER BY due_at NULLS FIRST
  `);

test.serial(
  "servers that never respond delay no delivery to another, at no time, however many deliveries they have",
  async (t) => {
    const { db } = t.context;
    const [silent, quick] = [await startReceiver(t), await startReceiver(t)];
    silent.respond(holdOpen);
    const quickIds = await insertEndpoints(db, { url: quick.url, count: 5, deliveries: 1 });
    const { counts } = runShard(t);
    await eventually(() => quick.received.length === 5);
    await insertEndpoints(db, { url: silent.url, count: 300, deliveries: 20 });
    await eventually(() => silent.received.length >= 60);
    // Into the next runs, in which the requests to the silent servers are still in progress.
    const { runs } = counts;
    await eventually(() => counts.runs >= runs + 2);
    await insertDeliveries(db, quickIds, 20);
    await eventually(() => quick.received.length === 105);
    // None of the others has timed out.
    t.is(silent.mostAtOnce(), silent.received.length);
  },
);

test.serial("a shard that stops finishes its calls, and leaves the rest to another", async (t) => {
  const { db } = t.context;
  const receiver = await startReceiver(t);
  const held: (() => void)[] = [];
  receiver.respond((response) => {
    held.push(() => response.writeHead(204).end());
  });
  const [id = ""] = await insertEndpoints(db, { url: receiver.url, count: 1, deliveries: 3 });
  const { ended, stop } = runShard(t);
  await eventually(() => held.length === 1);
  stop();
  held[0]?.();
  await ended;
  t.is(receiver.received.length, 1);
  t.deepEqual(await readStates(db, id), [
    { state: "delivered", attempts: 1, isLeased: false },
    { state: "pending", attempts: 0, isLeased: false },
    { state: "pending", attempts: 0, isLeased: false },
  ]);
});

test.serial("interrupted requests give up their leases, and are repeated at once", async (t) => {
  const { db } = t.context;
  const receiver = await startReceiver(t);
  receiver.respond(holdOpen);
  const [id = ""] = await insertEndpoints(db, { url: receiver.url, count: 1, deliveries: 1 });
  const released = [{ state: "pending", attempts: 0, isLeased: false }];
  const [stop, abort] = [new AbortController(), new AbortController()];
  const shards = createDeliveryRuns(dependenciesOf(db), { onFailure: throwError });
  const interrupted = shards.run(SHARD, { stop: stop.signal, signal: abort.signal });
  await eventually(() => receiver.received.length === 1);
  abort.abort();
  await interrupted;
  t.deepEqual(await readStates(db, id), released);

  // A run that ends while the request is in progress leaves it to the next one, or to the end of the worker.
  const short = createDeliveryRuns(dependenciesOf(db), { onFailure: throwError, runMs: RUN_MS });
  const signal = new AbortController().signal;
  await eventually(async () => {
    await short.run(SHARD, { stop: stop.signal, signal });
    return receiver.received.length === 2;
  });
  t.like(await readStates(db, id), [{ isLeased: true }]);
  await short.end();
  t.deepEqual(await readStates(db, id), released);

  receiver.respond((response) => response.writeHead(204).end());
  const last = shards.run(SHARD, { stop: stop.signal, signal });
  await eventually(async () => (await readStates(db, id))[0]?.state === "delivered");
  stop.abort();
  await last;
  t.is(receiver.received.length, 3);
});

test.serial("a delivery of a type that this release does not know is made", async (t) => {
  const { db } = t.context;
  const receiver = await startReceiver(t);
  const [id = ""] = await insertEndpoints(db, { url: receiver.url, count: 1, deliveries: 1 });
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery SET type = 'later.type' WHERE endpoint_id = ${id}
  `);
  runShard(t);
  await eventually(() => receiver.received.length === 1);
  t.regex(receiver.received[0]?.body ?? "", /^\{"type":"later\.type"/u);
});

test("the endpoints of the other shards are left to these", async (t) => {
  const { db } = t.context;
  const receiver = await startReceiver(t);
  const own = await insertEndpoints(db, { url: receiver.url, count: 3, deliveries: 1 });
  const scanEndpoints = createEndpointScans({ db, clock: systemClock });
  const found = await Promise.all(
    Array.from({ length: SHARDS }, (_, shard) => scanEndpoints(shard)),
  );
  const ids = found.map((endpoints) => endpoints?.map(({ id }) => id) ?? []);
  t.true(own.every((id) => ids[SHARD]?.includes(id)));
  t.false(own.some((id) => ids.some((others, shard) => shard !== SHARD && others.includes(id))));
});

test("a claim leases so many deliveries of each endpoint, the longest due first, and none twice", async (t) => {
  const { db } = t.context;
  const receiver = await startReceiver(t);
  const [first = "", second = ""] = await insertEndpoints(db, {
    url: receiver.url,
    count: 2,
    deliveries: 5,
  });
  const claim = (places: number) =>
    claimDeliveries(
      db,
      [
        { endpointId: first, places },
        { endpointId: second, places: 1 },
      ],
      systemClock.now(),
    );
  const claims = [...(await claim(3)), ...(await claim(3))];
  const idsOf = (endpoint: string): readonly string[] =>
    claims.filter(({ endpointId }) => endpointId === endpoint).map(({ id }) => id);
  const byDueTime = await db.anyFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT event_id AS id FROM webhook_delivery WHERE endpoint_id = ${first} ORDER BY due_at
  `);
  t.deepEqual(idsOf(first), byDueTime);
  t.is(new Set(idsOf(second)).size, 2);
});

test("what attempts say of their endpoint is recorded in the order in which they ended", async (t) => {
  const { deps, endpoint, record, clock, pass } = await setUpWebhooks(t);
  const { db } = deps;
  const recordAttempt = createAttemptRecords(db);
  /** Records attempts together: true for those that succeeded. A second passes before each. */
  const attempt = async (...outcomes: readonly boolean[]): Promise<Date | null> => {
    for (const outcome of outcomes) {
      await record(String(outcome));
    }
    const claimed = await claimDeliveries(
      db,
      [{ endpointId: endpoint.id, places: outcomes.length }],
      clock.now(),
    );
    t.is(claimed.length, outcomes.length);
    await Promise.all(
      claimed.map((delivery, index) => {
        pass(1000);
        const hasSucceeded = outcomes[index] === true;
        return recordAttempt({
          delivery,
          startedAt: clock.now(),
          endedAt: clock.now(),
          durationMs: 5,
          result: {
            status: hasSucceeded ? 204 : 500,
            error: hasSucceeded ? null : "status 500",
            response: "",
            retryAfterMs: null,
          },
          decision: { state: hasSucceeded ? "delivered" : "failed", dueAt: null },
        });
      }),
    );
    return (await findEndpoint(db, endpoint.id))?.failingSince ?? null;
  };
  const secondsAgo = (seconds: number): Date => new Date(clock.now().getTime() - seconds * 1000);
  t.is(await attempt(false, true), null);
  t.deepEqual(await attempt(true, false, false), secondsAgo(1));
  t.deepEqual(await attempt(false, false), secondsAgo(3));
  t.deepEqual(await attempt(false, true, false), secondsAgo(0));
  t.is(await attempt(true), null);
});

const RESULT = { status: 204, error: null, response: "", retryAfterMs: null };

test("a success is recorded, whichever of two attempts at the same time is recorded first", async (t) => {
  const { deps, endpoint, record, clock, pass, deliveries } = await setUpWebhooks(t);
  const { db } = deps;
  /** Claims a delivery, and lets its lease end. */
  const claim = async (): Promise<ClaimedDelivery> => {
    const [delivery = t.fail()] = await claimDeliveries(
      db,
      [{ endpointId: endpoint.id, places: 1 }],
      clock.now(),
    );
    pass(LEASE_MS);
    return delivery;
  };
  const twice = async () => {
    await record(crypto.randomUUID());
    const attempt = () => ({ startedAt: clock.now(), endedAt: clock.now(), durationMs: 5 });
    const success: EndedAttempt = {
      ...attempt(),
      delivery: await claim(),
      result: RESULT,
      decision: { state: "delivered", dueAt: null },
    };
    const failure: EndedAttempt = {
      ...attempt(),
      delivery: await claim(),
      result: { ...RESULT, status: 500, error: "status 500" },
      decision: { state: "pending", dueAt: clock.now() },
    };
    return { success, failure };
  };
  const recordAttempt = createAttemptRecords(db);
  const first = await twice();
  await Promise.all([recordAttempt(first.success), recordAttempt(first.failure)]);
  const second = await twice();
  await Promise.all([recordAttempt(second.failure), recordAttempt(second.success)]);
  t.deepEqual(
    (await deliveries()).map(({ state }) => state),
    ["delivered", "delivered"],
  );
});

test("an attempt is recorded once although the database fails meanwhile, and the receiver is asked once", async (t) => {
  const { deps, endpoint, record, clock, receiver, deliveries } = await setUpWebhooks(t);
  await record("first");
  const [delivery = t.fail()] = await claimDeliveries(
    deps.db,
    [{ endpointId: endpoint.id, places: 1 }],
    clock.now(),
  );
  const recordAttempt = createAttemptRecords(deps.db);
  let failures = 2;
  const ended: unknown[] = [];
  await makeAttempt(deps, delivery, {
    record: (attempt) => {
      failures -= 1;
      // The first record is committed, but its response is lost.
      return failures === 1
        ? recordAttempt(attempt).then(() => Promise.reject(new Error("connection lost")))
        : failures === 0
          ? Promise.reject(new Error("connection lost"))
          : recordAttempt(attempt);
    },
    onEnd: (result) => ended.push(result?.status),
    signal: new AbortController().signal,
  });
  t.is(failures, -1);
  t.deepEqual(ended, [204]);
  t.is(receiver.received.length, 1);
  t.like(await deliveries(), [{ state: "delivered", attempts: 1 }]);
});
