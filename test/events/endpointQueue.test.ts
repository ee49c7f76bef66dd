import test from "ava";
import { createEndpointQueue } from "../../modules/events/createEndpointQueue.ts";

const SECOND_MS = 1000;

const RESPONSE = { status: 204 };
const TIMEOUT = { status: null };

const named = (prefix: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

const setUp = () => {
  let nowMs = 0;
  const queue = createEndpointQueue(() => nowMs);
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  return {
    queue,
    pass,
    add: (...ids: readonly string[]): void => {
      for (const id of ids) {
        queue.add({ id, isFailing: false });
      }
    },
    /** Occupies the places that can be taken, and returns how many each endpoint got and what ends all their requests. */
    begin: () => {
      const taken = queue.take();
      const ends = taken.flatMap(({ endpointId, places }) =>
        Array.from({ length: places }, () => queue.begin(endpointId)),
      );
      return {
        places: Object.fromEntries(taken.map(({ endpointId, places }) => [endpointId, places])),
        total: ends.length,
        end: () => {
          for (const end of ends) {
            end(RESPONSE);
          }
        },
      };
    },
    /** Makes endpoints known by a request to each that takes so long. */
    know: (
      ids: readonly string[],
      durationMs: number,
      result: { readonly status: number | null } = RESPONSE,
    ): void => {
      const ends = ids.map((id) => queue.begin(id));
      pass(durationMs);
      for (const end of ends) {
        end(result);
      }
    },
  };
};

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

test("quick, slow and silent endpoints have separate places, in equal shares, however many wait", (t) => {
  const { add, begin, know, pass } = setUp();
  const [quick, slow, silent] = [named("quick", 20), named("slow", 60), named("silent", 600)];
  know(silent, 15 * SECOND_MS, TIMEOUT);
  know(slow, SECOND_MS);
  know(quick, SECOND_MS - 1);
  add(...silent, ...slow, ...quick);
  const { places } = begin();
  t.true(quick.every((id) => places[id] === 3));
  t.true(slow.every((id) => places[id] === 1));
  t.is(silent.filter((id) => places[id] === 1).length, 60);
  add(...silent, ...slow, ...quick);
  t.deepEqual(begin().places, {});
  pass(SECOND_MS);
  // The requests to quick endpoints that have lasted for a second no longer occupy their places.
  know(["late"], 5);
  add("late");
  t.true((begin().places["late"] ?? 0) > 0);
});

test("endpoints that were not called before delay no others, and leave their places after a second", (t) => {
  const { add, begin, know, pass } = setUp();
  know(["quick"], 5);
  add(...named("new", 100), "quick");
  const { places, total } = begin();
  t.is(total, 70);
  t.is(places["quick"], 10);
  add("late");
  t.deepEqual(begin().places, {});
  pass(SECOND_MS);
  const later = begin();
  t.is(later.total, 41);
  t.is(later.places["late"], 1);
});

for (const durationMs of [5, 2 * SECOND_MS]) {
  test(`250 endpoints that respond in ${durationMs} ms take turns`, (t) => {
    const { add, begin, know, pass } = setUp();
    const ids = named("endpoint", 250);
    know(ids, durationMs);
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
      end();
    }
  });
}

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

test("an endpoint that is failing counts as silent, unless this worker knows better", (t) => {
  const { queue, add, know, begin } = setUp();
  const silent = named("silent", 100);
  know(silent, 15 * SECOND_MS, TIMEOUT);
  add(...silent);
  t.is(begin().total, 60);
  queue.add({ id: "failing", isFailing: true });
  t.deepEqual(begin().places, {});
  know(["failing"], 5);
  queue.add({ id: "failing", isFailing: true });
  t.deepEqual(begin().places, { failing: 10 });
});

test("an interrupted request says nothing about its endpoint", (t) => {
  const { queue, add, begin } = setUp();
  queue.begin("a")();
  add("a");
  t.deepEqual(begin().places, { a: 1 });
});

/** Returns the CPU time of a hundred searches for free places while the slow endpoints that wait have none, in microseconds. */
const measureSearches = (waiting: number): number => {
  const { queue, begin } = setUp();
  for (const id of named("slow", waiting)) {
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
