import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import {
  createImpactClient,
  ImpactApiError,
  ImpactConnectionError,
  ImpactError,
  ImpactTimeoutError,
} from "../../clients/typescript/src/index.ts";
import { backoffMs, readRetryAfterMs } from "../../clients/typescript/src/createTransport.ts";
import { serveRequests } from "../support/server.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createFaultyFetch } from "./createFaultyFetch.ts";
import type { Fault, SeenRequest } from "./createFaultyFetch.ts";

const test = testWithDatabase();

const isConnectionError = { instanceOf: ImpactConnectionError };

const isApiError = { instanceOf: ImpactApiError };

const startWithFaults = async (
  t: ExecutionContext<{ readonly db: DatabasePool }>,
  faults: readonly Fault[],
  options: { readonly timeoutMs?: number; readonly maxRetries?: number } = {},
) => {
  const { url, apiKeyTest: apiKey } = await startApiOf(t);
  const { fetch: faultyFetch, seen } = createFaultyFetch(faults);
  return {
    impact: createImpactClient({ baseUrl: url, apiKey, fetch: faultyFetch, ...options }),
    direct: createImpactClient({ baseUrl: url, apiKey }),
    seen,
  };
};

const keysOf = (seen: readonly SeenRequest[]): ReadonlySet<unknown> =>
  new Set(seen.map(({ headers }) => headers.get("Idempotency-Key")));

test("a write whose responses are lost is repeated with the same key, and recorded once", async (t) => {
  const faults = ["lost response", "cut response", "lost request"] as const;
  const { impact, seen } = await startWithFaults(t, faults);

  const { total_planted_trees: total } = await impact.registerTrees({ count: 3 });

  t.is(total, 3);
  t.is(seen.length, 4);
  t.is(keysOf(seen).size, 1);
  t.false(keysOf(seen).has(null));
  t.is(new Set(seen.map(({ headers }) => headers.get("X-Request-Id"))).size, 1);
});

test("a write is repeated after 500, 502, 503 and 504, and also after 408 and 429", async (t) => {
  const repeat = async (status: number): Promise<void> => {
    const { impact, seen } = await startWithFaults(t, [{ status }]);
    await impact.registerBottles({ count: 1 });
    t.is(seen.length, 2, String(status));
    t.is(keysOf(seen).size, 1, String(status));
  };

  await Promise.all([500, 502, 503, 504, 408, 429].map(repeat));
});

test("the next attempt is not earlier than Retry-After asks", async (t) => {
  const busy = { status: 503, headers: { "Retry-After": "2" } };
  const { impact, seen } = await startWithFaults(t, [busy]);
  const beginning = performance.now();

  await impact.registerTrees({ count: 1 });

  t.true(performance.now() - beginning >= 2000);
  t.is(seen.length, 2);
});

test("a batch whose responses are lost is recorded once, with a key for each item", async (t) => {
  const { impact, direct } = await startWithFaults(t, ["lost response", "cut response"]);
  const items = [{ count: 1 }, { count: 2, idempotency_key: "order-2" }, { count: 3 }];

  const { succeeded, results } = await impact.registerTreesInBatch({ items });
  const again = await direct.registerTreesInBatch({ items }, {}, { idempotencyKey: "night" });

  t.is(succeeded, 3);
  t.is(results.length, 3);
  t.is(again.succeeded, 3);
  const keys: string[] = [];
  for await (const tree of direct.listTrees()) {
    keys.push(tree.idempotency_key);
  }
  t.is(keys.length, 5);
  t.true(["order-2", "night#item-0", "night#item-2"].every((key) => keys.includes(key)));
});

test("a key that a header would change is rejected before anything is sent", async (t) => {
  const { impact, seen } = await startWithFaults(t, []);
  const items = [{ count: 1 }];

  for (const idempotencyKey of ["", " k", "k\n"]) {
    for (const send of [
      () => impact.registerTreesInBatch({ items }, {}, { idempotencyKey }),
      () => impact.registerTrees({ count: 1 }, { idempotencyKey }),
    ]) {
      await t.throwsAsync(send, { instanceOf: ImpactError, message: /^idempotencyKey: must not/u });
    }
  }
  t.is(seen.length, 0);
  // As long as the service allows: a character that has two units is one.
  const long = { idempotencyKey: "🌳".repeat(1000) };
  t.is((await impact.registerTrees({ count: 1 }, long)).total_planted_trees, 1);
});

test("the error of a rejected batch names the items", async (t) => {
  const { impact } = await startWithFaults(t, []);
  const items = [{ count: 1 }, { count: 0 }];

  const error = await t.throwsAsync(impact.registerTreesInBatch({ items }), isApiError);
  const { failed } = await impact.registerTreesInBatch({ items }, { atomic: false });

  t.like(error.body, { errors: [{ index: 1, status: 400 }] });
  t.is(failed, 1);
});

test("a write that takes no key is repeated only if the response says that nothing was done", async (t) => {
  const { impact, seen } = await startWithFaults(t, [
    { status: 408 },
    { status: 429 },
    { status: 503, body: '{"error":"too many requests are waiting"}' },
    { status: 502 },
    "lost response",
  ]);
  const subscribe = () => t.throwsAsync(impact.subscribeToDonations(), isApiError);

  t.like(await subscribe(), { status: 503, attempts: 3, message: "too many requests are waiting" });
  const message = "the response has the status 502 and no message";
  t.like(await subscribe(), { status: 502, attempts: 1, message });
  await t.throwsAsync(impact.subscribeToDonations(), isConnectionError);
  t.is(seen.length, 5);
});

test("pages are repeated", async (t) => {
  const { impact, direct } = await startWithFaults(t, ["cut response", { status: 503 }]);
  await direct.registerTrees({ count: 1 });
  await direct.registerTrees({ count: 2 });

  let count = 0;
  for await (const tree of impact.listTrees({ first: 1 })) {
    count += tree.count;
  }

  t.is(count, 3);
});

test("after the last retry, the error names the status, the attempts and the key for another call", async (t) => {
  const faults = ["lost response", "lost response"] as const;
  const { impact, seen } = await startWithFaults(t, faults, { maxRetries: 1 });

  const error = await t.throwsAsync(impact.registerTrees({ count: 3 }), isConnectionError);

  t.is(error.attempts, 2);
  t.deepEqual([...keysOf(seen)], [error.idempotencyKey]);
  const keyed = { idempotencyKey: error.idempotencyKey ?? "" };
  const again = await impact.registerTrees({ count: 3 }, keyed);
  t.is(again.total_planted_trees, 3);
});

test("a service that asks for a longer wait than a minute is not asked again", async (t) => {
  const { impact, seen } = await startWithFaults(t, [
    { status: 503, headers: { "Retry-After": "3600" }, body: '{"error":"come back later"}' },
  ]);

  const error = await t.throwsAsync(impact.registerTrees({ count: 1 }), isApiError);

  t.like(error, { message: "come back later", retryAfterMs: 3_600_000 });
  t.is(seen.length, 1);
});

test("an attempt without a response ends after its time, and is repeated", async (t) => {
  const answered = { status: 200, body: '{"total_planted_trees":1}' };
  const { impact, seen } = await startWithFaults(t, ["silence", answered]);

  const patient = await impact.registerTrees({ count: 1 }, { timeoutMs: 3000 });
  t.is(patient.total_planted_trees, 1);
  t.is(seen.length, 2);

  for (const timeoutMs of [Infinity, 2 ** 31, 9999.5]) {
    t.is((await impact.registerTrees({ count: 1 }, { timeoutMs })).tree_details.length, 1);
  }

  const silent = await startWithFaults(t, ["silence"], { maxRetries: 0, timeoutMs: 50 });
  await t.throwsAsync(silent.impact.registerTrees({ count: 1 }), {
    instanceOf: ImpactTimeoutError,
    message: "no complete response within 50 ms",
  });
});

test("the caller's signal ends an attempt and the wait before the next one, with its own reason", async (t) => {
  const busy = { status: 503, headers: { "Retry-After": "50" } };
  const { impact, seen } = await startWithFaults(t, ["silence", busy]);
  for (const expected of [1, 2]) {
    const controller = new AbortController();
    const call = impact.registerTrees({ count: 1 }, { signal: controller.signal });
    while (seen.length < expected) {
      await new Promise(setImmediate);
    }
    controller.abort(new Error("the customer left"));
    await t.throwsAsync(call, { message: "the customer left" });
  }
  t.is(seen.length, 2);
});

test("a redirect is not followed, because it would send the key to another address", async (t) => {
  const paths: (string | undefined)[] = [];
  const baseUrl = await serveRequests(t, (request, response) => {
    paths.push(request.url);
    response.writeHead(paths.length === 1 ? 307 : 302, { Location: "/elsewhere" }).end();
  });
  const impact = createImpactClient({ baseUrl, apiKey: "k" });

  const error = await t.throwsAsync(impact.registerTrees({ count: 1 }), isApiError);
  await t.throwsAsync(impact.readDashboardUrl(), isApiError);

  t.is(error.message, "the response is a redirect: check baseUrl");
  t.deepEqual(paths, ["/plant/trees", "/dashboard_url"]);
});

test("a page of a proxy instead of JSON is an error that names no content", async (t) => {
  const { impact } = await startWithFaults(t, [
    { status: 200, body: "<html>Sign in</html>" },
    { status: 403, body: "<html>Forbidden</html>" },
  ]);

  for (const message of [
    "the response is not JSON: check baseUrl",
    "the response has the status 403 and no message",
  ]) {
    await t.throwsAsync(impact.readDashboardUrl(), { message });
  }
});

test("the wait doubles, is random, and is never shorter than the service asks", (t) => {
  const [shortest, longest] = [() => 0, () => 1];
  const waits = [1, 2, 3, 4, 5, 6, 7].map((attempt) => backoffMs(attempt, 0, shortest));
  t.deepEqual(waits, [250, 500, 1000, 2000, 4000, 4000, 4000]);
  t.is(backoffMs(3, 0, longest), 2000);
  t.is(backoffMs(1, 30_000, shortest), 30_000);
  t.is(backoffMs(1, 30_000, longest), 30_250);
});

const readHeader = (value: string): number | null =>
  readRetryAfterMs(new Headers({ "Retry-After": value }), Date.UTC(2026, 0, 1));

test("Retry-After is a number of seconds or a date", (t) => {
  t.is(readHeader("7"), 7000);
  t.is(readHeader("Thu, 01 Jan 2026 00:01:00 GMT"), 60_000);
  t.is(readHeader("Wed, 31 Dec 2025 00:00:00 GMT"), 0);
  t.is(readHeader("soon"), null);
  t.is(readRetryAfterMs(new Headers()), null);
});
