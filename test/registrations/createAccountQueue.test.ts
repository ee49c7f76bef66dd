import test from "ava";
import { DomainError } from "../../domain/errors.ts";
import { createAccountQueue } from "../../services/batching/createAccountQueue.ts";

test("the work of one account runs in order, one at a time, and a failure does not stop the rest", async (t) => {
  const queue = createAccountQueue();
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
    ["a", "b", "c"].map((name) => queue("account", work(name))),
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

test("other accounts do not wait, and a full queue rejects further work", async (t) => {
  const queue = createAccountQueue(2);
  const gate = Promise.withResolvers<string>();
  const waiting = [1, 2].map(() => queue("busy", () => gate.promise));

  t.is(await queue("other", () => Promise.resolve("done")), "done");
  await t.throwsAsync(
    queue("busy", () => Promise.resolve("")),
    { instanceOf: DomainError, code: "queue_full" },
  );
  gate.resolve("done");
  t.deepEqual(await Promise.all(waiting), ["done", "done"]);
  t.is(await queue("busy", () => Promise.resolve("again")), "again");
});
