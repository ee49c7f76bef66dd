import test from "ava";
import { DomainError } from "../../../domain/errors.ts";
import { createStoreWriteQueue } from "../../../services/stores/createStoreWriteQueue.ts";

test("one store's work is done in its order, one at a time, and a failure holds up nobody", async (t) => {
  const turns = createStoreWriteQueue();
  const done: string[] = [];
  const work = (name: string) => async (): Promise<string> => {
    done.push(`${name} begins`);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    done.push(`${name} ends`);
    if (name === "b") {
      throw new Error("b fails");
    }
    return name;
  };

  const results = await Promise.allSettled(
    ["a", "b", "c"].map((name) => turns("store", work(name))),
  );

  t.deepEqual(
    results.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  t.deepEqual(
    done,
    ["a", "b", "c"].flatMap((name) => [`${name} begins`, `${name} ends`]),
  );
});

test("another store does not wait, and a line that is too long refuses the next", async (t) => {
  const turns = createStoreWriteQueue(2);
  const gate = Promise.withResolvers<string>();
  const waiting = [1, 2].map(() => turns("busy", () => gate.promise));

  t.is(await turns("other", () => Promise.resolve("at once")), "at once");
  await t.throwsAsync(
    turns("busy", () => Promise.resolve("")),
    { instanceOf: DomainError, code: "queue_full" },
  );
  gate.resolve("done");
  t.deepEqual(await Promise.all(waiting), ["done", "done"]);
  t.is(await turns("busy", () => Promise.resolve("again")), "again");
});
