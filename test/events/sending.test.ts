import { claimDeliveries, recordAttempts } from "../../modules/events/attempts.sql.ts";
import type { ClaimedDelivery } from "../../modules/events/attempts.sql.ts";
import { LEASE_MS } from "../../modules/events/decideDelivery.rules.ts";
import { sql } from "../../db/sql.ts";
import { insertDeliveries, insertEndpoints } from "./insertDeliveries.ts";
import { countCalls } from "../support/countCalls.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { findEndpoint } from "../../modules/events/endpoints.sql.ts";
import { createDeliveryRuns, createDeliveryWork } from "../../modules/events/createDeliveryRuns.ts";
import { createSender } from "../../db/createRuns.ts";
import { runSender as runUntilIdle } from "../support/runSender.ts";
import { setTimeout as delay } from "node:timers/promises";
import type { DatabaseTest } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { createWebhookSender } from "../../modules/events/createWebhookSender.ts";
import { holdOpen, startReceiver } from "./startReceiver.ts";
import { setUpWebhooks, deliveryContext, LOOPBACK } from "./webhookScene.ts";

const test = testWithDatabase();

const RUN_MS = 200;

/** Makes deliveries in short runs, one after the other, as the workflow does, until the test ends. */
const runSender = (t: DatabaseTest) => {
  const runs = createDeliveryRuns(
    // No request times out while the test runs.
    {
      ...deliveryContext(t.context.db),
      send: createWebhookSender({ ...LOOPBACK, timeoutMs: 120_000 }),
    },
    { runMs: RUN_MS },
  );
  const [stop, abort] = [new AbortController(), new AbortController()];
  const counts = { runs: 0 };
  const run = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      await runs.run({ stop: stop.signal, signal: abort.signal });
      counts.runs += 1;
    }
    await runs.end();
  };
  const ended = run();
  t.teardown(() => {
    stop.abort();
    abort.abort();
    return ended;
  });
  return { counts, ended, stop: () => stop.abort(), abort: () => abort.abort() };
};

const stateRow = z.strictObject({ state: z.string(), attempts: z.int(), isDue: z.boolean() });

const readStates = (db: DatabasePool, endpointId: string) =>
  db.any(sql.type(stateRow)`
    SELECT state, attempts, coalesce(due_at <= now(), false) AS "isDue"
    FROM webhook_delivery
    WHERE endpoint_id = ${endpointId}
    ORDER BY created_at
  `);

test.serial("a sender that stops finishes its calls, and leaves the rest to another", async (t) => {
  const { db } = t.context;
  const receiver = await startReceiver(t);
  const held: (() => void)[] = [];
  receiver.respond((response) => void held.push(() => response.writeHead(204).end()));
  const [id = ""] = await insertEndpoints(db, 1, { url: receiver.url, deliveries: 12 });
  const { ended, stop } = runSender(t);
  await eventually(() => held.length === 10);
  stop();
  held.forEach((release) => release());
  await ended;
  t.is(receiver.received.length, 10);
  t.deepEqual(await readStates(db, id), [
    ...Array.from({ length: 10 }, () => ({ state: "delivered", attempts: 1, isDue: false })),
    { state: "pending", attempts: 0, isDue: true },
    { state: "pending", attempts: 0, isDue: true },
  ]);
});

test.serial("servers that never respond delay no delivery to another, at no time", async (t) => {
  const { db } = t.context;
  const [silent, quick] = [await startReceiver(t), await startReceiver(t)];
  silent.respond(holdOpen);
  const quickIds = await insertEndpoints(db, 5, { url: quick.url, deliveries: 1 });
  const { counts } = runSender(t);
  await eventually(() => quick.received.length === 5);
  await insertEndpoints(db, 300, { url: silent.url, deliveries: 20 });
  await eventually(() => silent.received.length >= 240);
  // Into the next runs, in which the requests to the silent servers are still in progress.
  const { runs } = counts;
  await eventually(() => counts.runs >= runs + 2);
  await insertDeliveries(db, quickIds, 20);
  await eventually(() => quick.received.length === 105);
  // None of the others has timed out.
  t.is(silent.mostAtOnce(), silent.received.length);
});

type Sending = {
  readonly endpoints: number;
  /** Of each endpoint. */
  readonly deliveries: number;
  readonly durationMs: number;
  /** Ten more endpoints with ten deliveries each. */
  readonly slowMs?: number;
};

const SLOW_URL = "https://slow.example";

/** Begins to send the deliveries of new endpoints without HTTP, and returns the requests as they begin. */
const startSending = async (
  db: DatabasePool,
  { endpoints: count, deliveries, durationMs, slowMs }: Sending,
) => {
  const slow = { url: SLOW_URL, deliveries: 10 };
  const slowIds = await insertEndpoints(db, slowMs === undefined ? 0 : 10, slow);
  const ids = [...slowIds, ...(await insertEndpoints(db, count, { deliveries }))];
  const sent: { readonly url: string; readonly atMs: number }[] = [];
  const counted = countCalls(db);
  const context = {
    ...deliveryContext(counted.db),
    send: async ({ url }: { readonly url: string }) => {
      sent.push({ url, atMs: performance.now() });
      await delay(url.startsWith(SLOW_URL) ? slowMs : durationMs);
      return { status: 204, error: null, retryAfterMs: null };
    },
  };
  const work = createDeliveryWork(context, () => Promise.resolve(ids));
  const ended = runUntilIdle(createSender(work, new AbortController().signal));
  return { sent, countStatements: counted.count, ended };
};

test("1,000 endpoints take turns, and share few statements", async (t) => {
  const sending = { endpoints: 1000, deliveries: 3, durationMs: 1 };
  const { sent, countStatements, ended } = await startSending(t.context.db, sending);
  await ended;
  t.is(sent.length, 3000);
  t.is(new Set(sent.slice(0, 1000).map(({ url }) => url)).size, 1000);
  t.true(countStatements() < 300, String(countStatements()));
});

test("240 requests at most begin in a second if none ends, as many of each endpoint", async (t) => {
  const sending = { endpoints: 80, deliveries: 10, durationMs: 1500 };
  const { sent, ended } = await startSending(t.context.db, sending);
  await ended;
  t.is(sent.length, 800);
  const ofEndpoints = Map.groupBy(sent.slice(0, 240), ({ url }) => url);
  t.true(ofEndpoints.values().every((requests) => requests.length === 3));
  // A timer may fire a millisecond early.
  sent.slice(240).forEach(({ atMs }, index) => t.true(atMs - (sent[index]?.atMs ?? 0) >= 990));
});

test("slow endpoints have their turns while quick ones take all other places", async (t) => {
  const sending = { endpoints: 60, deliveries: 40, durationMs: 400, slowMs: 1200 };
  const { sent, ended } = await startSending(t.context.db, sending);
  await ended;
  t.is(sent.length, 2500);
  t.false(sent.at(-1)?.url.startsWith(SLOW_URL));
});

test("an endpoint waits once for its turn, however often it is found", async (t) => {
  const { db } = t.context;
  const ids = await insertEndpoints(db, 250, { deliveries: 1 });
  let sent = 0;
  const send = () => {
    sent += 1;
    return Promise.resolve({ status: 204, error: null, retryAfterMs: null });
  };
  const context = { ...deliveryContext(db), send };
  const { loop } = createDeliveryWork(context, () => Promise.resolve(ids));
  const { signal } = new AbortController();
  const control = { mayBegin: () => true, startAnother: () => undefined, signal };
  const loops = ids.map((id) => loop(id, control));
  await loop(ids.at(-1) ?? "", control);
  t.is(sent, 0);
  await Promise.all(loops);
  t.is(sent, 250);
});

const endAttempt = (delivery: ClaimedDelivery, endedAt: Date, hasSucceeded: boolean) => {
  const error = hasSucceeded ? null : "status 500";
  const state = hasSucceeded ? ("delivered" as const) : ("failed" as const);
  return {
    delivery,
    endedAt,
    attempt: { started_at: endedAt.toISOString(), duration_ms: 5, status: null, error },
    decision: { state, dueAt: null },
  };
};

test("attempts that are recorded together say of their server whether all failed", async (t) => {
  const { deps, endpoint, record, clock, pass } = await setUpWebhooks(t);
  const { db } = deps;
  /** Records attempts together: true for those that succeeded. A second passes before each. */
  const attempt = async (outcomes: readonly boolean[]): Promise<Date | null> => {
    for (const outcome of outcomes) {
      await record(String(outcome));
    }
    const ids = outcomes.map(() => endpoint.id);
    const claimed = await claimDeliveries(db, ids, clock.now());
    t.is(claimed.length, outcomes.length);
    const ended = claimed.map((delivery, index) => {
      pass(1000);
      return endAttempt(delivery, clock.now(), outcomes[index] === true);
    });
    await recordAttempts(db, ended);
    return (await findEndpoint(db, endpoint.id))?.failingSince ?? null;
  };
  t.is(await attempt([true, false]), null);
  const failedAt = await attempt([false]);
  t.deepEqual(failedAt, clock.now());
  t.deepEqual(await attempt([false, false]), failedAt);
  t.is(await attempt([false, true]), null);
});

test("of two attempts of a delivery that are recorded together, the success counts", async (t) => {
  const { deps, endpoint, record, clock, pass, deliveries } = await setUpWebhooks(t);
  const { db } = deps;
  const claim = async (): Promise<ClaimedDelivery> => {
    const [delivery = t.fail()] = await claimDeliveries(db, [endpoint.id], clock.now());
    pass(LEASE_MS);
    return delivery;
  };
  for (const isReversed of [false, true]) {
    await record(String(isReversed));
    const late = endAttempt(await claim(), clock.now(), true);
    const attempts = [late, endAttempt(await claim(), clock.now(), false)];
    await recordAttempts(db, isReversed ? attempts.toReversed() : attempts);
  }
  const states = (await deliveries()).map(({ state }) => state);
  t.deepEqual(states, ["delivered", "delivered"]);
});
