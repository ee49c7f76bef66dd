import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { findEndpoint } from "../../db/webhooks/endpoints.ts";
import { claimDeliveries } from "../../db/webhooks/deliveries.ts";
import { systemClock } from "../../domain/clock.ts";
import { SHARDS } from "../../domain/shards.ts";
import { createWebhookSender } from "../../providers/webhooks/createWebhookSender.ts";
import { newId } from "../../services/newId.ts";
import { newSecret } from "../../services/webhooks/createWebhookEndpoint.ts";
import { createAttemptRecords } from "../../services/webhooks/sending/createAttemptRecords.ts";
import { createEndpointSpeeds } from "../../services/webhooks/sending/createEndpointQueue.ts";
import { createEndpointScans, deliverShard } from "../../services/webhooks/sending/deliverShard.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { holdOpen, startReceiver } from "./startReceiver.ts";
import { setUpWebhooks } from "./webhookScene.ts";

// Serial, because a shard makes the deliveries of all endpoints in the file's database.
const test = testWithDatabase();

const SHARD = 1;
const SETTINGS = { allowsHttp: true, allowedNetworks: ["127.0.0.0/8"] };

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
    ),
    secret AS (
      INSERT INTO webhook_secret (endpoint_id, secret, created_at)
      SELECT id, ${newSecret()}, now()
      FROM endpoint
    )
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
    SELECT id, gen_random_uuid(), 'ping', now(), '{}', now(), now() - make_interval(secs => number)
    FROM endpoint
    CROSS JOIN generate_series(1, ${deliveries}) AS number
  `);
  return ids;
};

/** Runs the shard until the test ends. */
const runDeliveries = (
  t: ExecutionContext<DatabaseContext>,
): { readonly ended: Promise<void>; readonly stop: () => void } => {
  const deps = {
    db: t.context.db,
    clock: systemClock,
    send: createWebhookSender(SETTINGS),
    random: () => 0.5,
    observeAttempt: () => undefined,
    observeDisabled: () => undefined,
  };
  const stop = new AbortController();
  const abort = new AbortController();
  const ended = deliverShard(deps, SHARD, {
    scanEndpoints: createEndpointScans(deps),
    speeds: createEndpointSpeeds(),
    onFailure: (_delivery, error) => {
      throw error;
    },
    stop: stop.signal,
    signal: abort.signal,
  });
  t.teardown(() => {
    abort.abort();
    return ended;
  });
  return { ended, stop: () => stop.abort() };
};

test.serial(
  "servers that never respond delay no delivery to another, though they have more deliveries than a shard has places",
  async (t) => {
    const { db } = t.context;
    const [silent, quick] = [await startReceiver(t), await startReceiver(t)];
    silent.respond(holdOpen);
    await insertEndpoints(db, { url: silent.url, count: 300, deliveries: 20 });
    runDeliveries(t);
    await eventually(() => silent.received.length >= 250);
    await insertEndpoints(db, { url: quick.url, count: 5, deliveries: 20 });
    await eventually(() => quick.received.length === 100);
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
  const [id] = await insertEndpoints(db, { url: receiver.url, count: 1, deliveries: 3 });
  const { ended, stop } = runDeliveries(t);
  await eventually(() => held.length === 1);
  stop();
  held[0]?.();
  await ended;
  t.is(receiver.received.length, 1);
  const rest = await claimDeliveries(db, [{ endpointId: id ?? "", places: 10 }], systemClock.now());
  t.deepEqual(
    rest.map(({ attempts }) => attempts),
    [0, 0],
  );
});

test("the endpoints of the other shards are left to these", async (t) => {
  const { db } = t.context;
  const receiver = await startReceiver(t);
  const own = await insertEndpoints(db, { url: receiver.url, count: 3, deliveries: 1 });
  const scanEndpoints = createEndpointScans({ db, clock: systemClock });
  const found = await Promise.all(
    Array.from({ length: SHARDS }, (_, shard) =>
      scanEndpoints({ shard, after: null, second: 0, limit: 1000 }),
    ),
  );
  const ids = found.map(({ items }) => items.map(({ id }) => id));
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
