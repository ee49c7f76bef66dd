import test from "ava";
import {
  createEndpointQueue,
  createEndpointSpeeds,
} from "../../services/webhooks/sending/createEndpointQueue.ts";

const SECOND_MS = 1000;

const setUp = () => {
  let nowMs = 0;
  const speeds = createEndpointSpeeds();
  const queue = createEndpointQueue(speeds, () => nowMs);
  const add = (...ids: readonly string[]): void => {
    for (const id of ids) {
      queue.add({ id, isFailing: false });
    }
  };
  /** Occupies the places that are given, and returns how many each endpoint got with what frees them. */
  const begin = () => {
    const taken = queue.take();
    const ends = taken.flatMap(({ endpointId, places }) =>
      Array.from({ length: places }, () => queue.begin(endpointId)),
    );
    return {
      places: taken.map(({ endpointId, places }) => [endpointId, places] as const),
      total: ends.length,
      end: () => {
        for (const end of ends) {
          end();
        }
      },
    };
  };
  return {
    speeds,
    queue,
    add,
    begin,
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
};

const named = (prefix: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

test("an endpoint receives one request at a time until it has responded, and then ten", (t) => {
  const { add, begin, pass } = setUp();
  add("a");
  const first = begin();
  t.deepEqual(first.places, [["a", 1]]);
  add("a");
  t.deepEqual(begin().places, []);
  pass(SECOND_MS - 1);
  first.end();
  t.deepEqual(begin().places, [["a", 10]]);
  add("a");
  t.deepEqual(begin().places, []);
});

test("an endpoint is given the places that have become free", (t) => {
  const { speeds, queue, add } = setUp();
  speeds.set("a", "quick");
  add("a");
  queue.take();
  const ends = Array.from({ length: 10 }, () => queue.begin("a"));
  add("a");
  for (const end of ends.slice(0, 3)) {
    end();
  }
  t.is(queue.running(), 7);
  t.deepEqual(queue.take(), [{ endpointId: "a", places: 3 }]);
  t.true(queue.isEmpty());
});

test("endpoints that do not respond share half of the places, however many they are", (t) => {
  const { speeds, add, begin } = setUp();
  const slow = named("slow", 100);
  for (const id of slow) {
    speeds.set(id, "slow");
  }
  speeds.set("quick", "quick");
  add(...slow);
  const first = begin();
  t.is(first.total, 200);
  t.true(first.places.every(([, places]) => places === 2));
  add(...slow);
  add("quick");
  t.deepEqual(begin().places, [["quick", 10]]);

  const more = setUp();
  const many = named("slow", 600);
  for (const id of many) {
    more.speeds.set(id, "slow");
  }
  more.add(...many);
  t.is(more.begin().total, 250);
  more.add("new");
  t.deepEqual(more.begin().places, [["new", 1]]);
});

test("slow endpoints take turns", (t) => {
  const { speeds, add, begin, pass } = setUp();
  const slow = named("slow", 600);
  for (const id of slow) {
    speeds.set(id, "slow");
  }
  add(...slow);
  const called = new Set<string>();
  for (let turn = 0; turn < 3; turn += 1) {
    const { places, end } = begin();
    for (const [endpointId] of places) {
      called.add(endpointId);
      add(endpointId);
    }
    pass(SECOND_MS);
    end();
  }
  t.is(called.size, 600);
});

test("an endpoint with a request that has lasted for a second is slow, and one that responds at once is not", (t) => {
  const { speeds, queue, add, begin, pass } = setUp();
  const quick = named("quick", 26);
  for (const id of quick) {
    speeds.set(id, "quick");
  }
  add(...quick);
  const first = begin();
  t.is(first.total, 260);
  pass(SECOND_MS);
  // More than half of the places are occupied by slow endpoints.
  add("quick0");
  t.deepEqual(begin().places, []);
  first.end();
  t.is(queue.running(), 0);
  t.is(speeds.get("quick0"), "slow");
  const second = begin();
  t.deepEqual(second.places, [["quick0", 10]]);
  second.end();
  t.is(speeds.get("quick0"), "quick");
});

test("an endpoint that was failing before the worker started counts as slow, unless it responds quickly", (t) => {
  const { speeds, queue } = setUp();
  queue.add({ id: "a", isFailing: true });
  t.is(speeds.get("a"), "slow");
  queue.take();
  queue.begin("a")();
  queue.add({ id: "a", isFailing: true });
  t.is(speeds.get("a"), "quick");
});

test("the queue is full while as many quick endpoints wait as there are places, but not because of slow ones", (t) => {
  const { speeds, queue, add, begin } = setUp();
  const slow = named("slow", 2000);
  for (const id of slow) {
    speeds.set(id, "slow");
  }
  add(...slow);
  begin();
  t.false(queue.isFull());
  add(...named("new", 1000));
  const first = begin();
  t.is(first.total, 250);
  t.true(queue.isFull());
  first.end();
  begin();
  t.is(queue.running(), 500);
});
