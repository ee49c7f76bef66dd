import test from "ava";
import { createEndpointQueue } from "../../modules/events/createEndpointQueue.ts";

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;

const RESPONSE = { status: 204, error: null, response: "", retryAfterMs: null };
const TIMEOUT = { status: null, error: "no response", response: null, retryAfterMs: null };

const named = (prefix: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

const setUp = () => {
  let nowMs = 0;
  const queue = createEndpointQueue(() => nowMs);
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  const add = (...ids: readonly string[]): void => {
    for (const id of ids) {
      queue.add({ id, isFailing: false });
    }
  };
  /** Occupies the places that can be taken, and returns how many each endpoint got and what ends all their requests. */
  const begin = () => {
    const taken = queue.take();
    const ends = taken.flatMap(({ endpointId, places }) =>
      Array.from({ length: places }, () => queue.begin(endpointId)),
    );
    return {
      places: Object.fromEntries(taken.map(({ endpointId, places }) => [endpointId, places])),
      total: ends.length,
      end: (result = RESPONSE as typeof RESPONSE | typeof TIMEOUT) => {
        for (const end of ends) {
          end(result);
        }
      },
    };
  };
  /** Makes endpoints known by a request to each that takes so long. */
  const know = (
    ids: readonly string[],
    durationMs: number,
    result: typeof RESPONSE | typeof TIMEOUT = RESPONSE,
  ): void => {
    const ends = ids.map((id) => queue.begin(id));
    pass(durationMs);
    for (const end of ends) {
      end(result);
    }
  };
  return { queue, pass, add, begin, know };
};

const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, each) => total + each, 0);

test("an endpoint receives one request at a time until it has responded, and then ten", (t) => {
  const { add, begin, pass } = setUp();
  add("a");
  const first = begin();
  t.deepEqual(first.places, { a: 1 });
  add("a");
  t.deepEqual(begin().places, {});
  pass(2 * SECOND_MS);
  t.deepEqual(begin().places, {});
  first.end();
  t.deepEqual(begin().places, { a: 10 });
  add("a");
  t.deepEqual(begin().places, {});
});

test("an endpoint is given the places that have become free", (t) => {
  const { queue, add, know } = setUp();
  know(["a"], 5);
  add("a");
  queue.take();
  const ends = Array.from({ length: 10 }, () => queue.begin("a"));
  add("a");
  for (const end of ends.slice(0, 3)) {
    end(RESPONSE);
  }
  t.is(queue.running(), 7);
  t.deepEqual(queue.take(), [{ endpointId: "a", places: 3 }]);
  t.true(queue.isEmpty());
});

test("quick, slow and silent endpoints have separate places, however many wait", (t) => {
  const { add, begin, know, pass } = setUp();
  const [quick, slow, silent] = [named("quick", 60), named("slow", 60), named("silent", 600)];
  know(silent, 15 * SECOND_MS, TIMEOUT);
  know(slow, SECOND_MS);
  know(quick, SECOND_MS - 1);
  add(...silent, ...slow, ...quick);
  const { places } = begin();
  const totalOf = (ids: readonly string[]): number => sum(ids.map((id) => places[id] ?? 0));
  t.deepEqual([totalOf(quick), totalOf(slow), totalOf(silent)], [60, 60, 60]);
  t.is(places["quick0"], 10);
  t.is(places["slow0"], 1);
  add(...silent, ...slow, ...quick);
  t.deepEqual(begin().places, {});
  pass(SECOND_MS);
  // The requests to quick endpoints that have lasted for a second no longer occupy their places.
  const next = begin();
  t.is(next.total, 60);
  t.true(Object.keys(next.places).every((id) => id.startsWith("quick")));
});

test("slow endpoints have equal shares", (t) => {
  const { add, begin, know } = setUp();
  const slow = named("slow", 20);
  know(slow, 2 * SECOND_MS);
  add(...slow);
  const { places, total } = begin();
  t.is(total, 60);
  t.true(Object.values(places).every((each) => each === 3));
});

test("endpoints of a lane take turns", (t) => {
  for (const [durationMs, result] of [
    [5, RESPONSE],
    [2 * SECOND_MS, RESPONSE],
    [15 * SECOND_MS, TIMEOUT],
  ] as const) {
    const { add, begin, know, pass } = setUp();
    const ids = named("endpoint", 250);
    know(ids, durationMs, result);
    add(...ids);
    const called = new Set<string>();
    for (let turn = 0; called.size < ids.length; turn += 1) {
      t.true(turn < 42);
      const { places, end } = begin();
      for (const id of Object.keys(places)) {
        called.add(id);
        add(id);
      }
      pass(durationMs);
      end(result);
    }
  }
});

test("endpoints that were not called before delay no others, and leave their places after a second", (t) => {
  const { add, begin, know, pass } = setUp();
  know(["quick"], 5);
  add(...named("new", 100), "quick");
  const { places, total } = begin();
  t.is(total, 70);
  t.is(places["quick"], 10);
  add("new0", "late");
  t.deepEqual(begin().places, {});
  pass(SECOND_MS);
  const later = begin();
  t.is(later.total, 41);
  t.is(later.places["late"], 1);
  t.is(later.places["new0"], undefined);
});

test("an endpoint changes its lane with each response", (t) => {
  const { add, begin, know } = setUp();
  const slow = named("slow", 100);
  know(slow, 2 * SECOND_MS);
  add(...slow);
  t.is(begin().total, 60);
  know(["a"], 2 * SECOND_MS);
  add("a");
  t.deepEqual(begin().places, {});
  know(["a"], 5);
  t.deepEqual(begin().places, { a: 10 });
});

test("an endpoint that was failing counts as silent, unless it has responded quickly in the last minute", (t) => {
  const { queue, add, know, pass, begin } = setUp();
  const silent = named("silent", 100);
  know(silent, 15 * SECOND_MS, TIMEOUT);
  add(...silent);
  t.is(begin().total, 60);
  queue.add({ id: "failing", isFailing: true });
  t.deepEqual(begin().places, {});
  know(["failing"], 5);
  queue.add({ id: "failing", isFailing: true });
  t.deepEqual(begin().places, { failing: 10 });
  know(["other"], 5);
  pass(MINUTE_MS + 1);
  queue.add({ id: "other", isFailing: true });
  t.deepEqual(begin().places, {});
});

test("an interrupted request says nothing about its endpoint", (t) => {
  const { queue, add, begin } = setUp();
  queue.begin("a")();
  add("a");
  t.deepEqual(begin().places, { a: 1 });
});

/** Returns the CPU time of a hundred searches for free places while the silent endpoints that wait have none, in microseconds. */
const measureSearches = (waiting: number): number => {
  const { queue, begin } = setUp();
  for (const id of named("silent", waiting)) {
    queue.add({ id, isFailing: true });
  }
  begin();
  const rounds = Array.from({ length: 5 }, () => {
    const before = process.cpuUsage();
    for (let search = 0; search < 100; search += 1) {
      queue.take();
    }
    const { user, system } = process.cpuUsage(before);
    return user + system;
  });
  return Math.min(...rounds);
};

test("the search for free places does not grow with the endpoints that wait", (t) => {
  const few = measureSearches(1000);
  const many = measureSearches(50_000);

  t.true(many < 10 * few, `${few} and ${many} µs`);
});

test("an endpoint that waits changes its lane as soon as its request ends, or becomes slow", (t) => {
  const { queue, add, pass, begin, know } = setUp();
  know(["recovered"], 2 * SECOND_MS, TIMEOUT);
  know(["slowed"], 0);
  add("slowed");
  const slowed = begin();
  add("recovered");
  const recovered = begin();
  for (const id of named("silent", 60)) {
    queue.add({ id, isFailing: true });
  }
  begin();
  add("recovered", "slowed");
  t.is(begin().total, 0);

  recovered.end();
  pass(SECOND_MS);

  t.is(begin().places["recovered"], 10);
  slowed.end();
  t.true((begin().places["slowed"] ?? 0) > 0);
});
