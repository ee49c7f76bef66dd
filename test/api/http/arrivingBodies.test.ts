import test from "ava";
import { createArrivingBodies } from "../../../api/http/arrivingBodies.ts";

const TOO_MANY = { code: "queue_full", message: "too many request bodies are arriving, try again" };

/** Adds bodies of clients and notes which are dropped. */
const start = (maximumBytes: number) => {
  const add = createArrivingBodies(maximumBytes);
  const dropped: string[] = [];
  return {
    dropped,
    add: (clientName: string, bodyName: string, bytes: number) =>
      add(clientName, { bytes, drop: () => dropped.push(bodyName) }),
  };
};

test("a client that starts more than is free loses its own oldest bodies, and only as many as necessary", (t) => {
  const { add, dropped } = start(100);
  add("other", "other's", 30);
  add("client", "first", 20);
  add("client", "second", 15);
  // A client may have as much as is free.
  t.deepEqual(dropped, []);

  add("client", "third", 10);
  t.deepEqual(dropped, ["first"]);
  // As much as is free now.
  add("client", "fourth", 20);
  t.deepEqual(dropped, ["first"]);
});

test("a client never drops the bodies of another one, and is rejected if those leave no space", (t) => {
  const { add, dropped } = start(100);
  add("first", "of the first", 50);
  add("second", "of the second", 25);

  t.throws(() => add("newcomer", "of the newcomer", 26), TOO_MANY);
  t.throws(() => add("second", "another of the second", 51), TOO_MANY);
  t.deepEqual(dropped, []);
});

test("a body that has arrived, was dropped or whose client has gone gives its bytes back once", (t) => {
  const { add, dropped } = start(100);
  const removeFirst = add("client", "first", 50);
  const removeSecond = add("client", "second", 50);
  t.deepEqual(dropped, ["first"]);

  // The request of a dropped body ends later.
  removeFirst();
  t.throws(() => add("newcomer", "of the newcomer", 51), TOO_MANY);
  removeSecond();
  removeSecond();
  add("newcomer", "of the newcomer", 50);
  t.throws(() => add("client", "third", 51), TOO_MANY);
  t.deepEqual(dropped, ["first"]);
});
