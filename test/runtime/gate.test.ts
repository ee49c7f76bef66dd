import test from "ava";
import { Gate } from "../../runtime/gate.ts";
import type { Pass } from "../../runtime/gate.ts";

const TOO_MANY = { code: "queue_full", message: "too many requests are waiting, try again" };
const TOO_MANY_BODIES = { ...TOO_MANY, message: "too many request bodies are arriving, try again" };

/** Enters jobs named after their clients, and notes which of them run. */
const open = (options: ConstructorParameters<typeof Gate>[0]) => {
  const gate = new Gate(options);
  const running: string[] = [];
  const failed: string[] = [];
  /** @param client by default the first letter of the job's name; null on behalf of all clients */
  const enter = (job: string, client: string | null = job.slice(0, 1)): Pass => {
    const pass = gate.enter(client ?? undefined);
    if (pass.isRunning) {
      running.push(job);
    } else {
      pass.resume = (error) => {
        if (error === undefined) {
          running.push(job);
        } else {
          failed.push(job);
        }
      };
    }
    return pass;
  };
  return { gate, running, failed, enter };
};

test("a client has as many places as are free, and a newcomer always finds some", (t) => {
  const { running, enter } = open({ places: 12 });
  for (const client of ["a", "b", "c"]) {
    for (let index = 0; index < 12; index += 1) {
      enter(client);
    }
  }

  const countOf = (client: string): number => running.filter((job) => job === client).length;
  t.deepEqual(["a", "b", "c"].map(countOf), [6, 3, 2]);
  enter("newcomer");
  t.is(countOf("newcomer"), 1);
});

test("clients that wait take turns, and a client's jobs run in their order", (t) => {
  const { gate, running, enter } = open({ places: 1 });
  const passes = new Map<string, Pass>();
  for (const job of ["a1", "a2", "a3", "a4", "b1", "b2", "c1"]) {
    passes.set(job, enter(job));
  }
  for (let ended = 0; ended < 7; ended += 1) {
    gate.end(passes.get(running[ended] ?? "") ?? t.fail());
  }

  t.deepEqual(running, ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]);
  t.deepEqual([gate.runningCount(), gate.waitingCount()], [0, 0]);
});

test("a client may have as many jobs waiting as there is room for more, so it alone is rejected", (t) => {
  const { running, enter } = open({ places: 1, maximumWaiting: 4 });
  ["a1", "a2", "a3"].forEach((job) => enter(job));

  t.throws(() => enter("a4"), TOO_MANY);
  enter("b1");
  t.throws(() => enter("b2"), TOO_MANY);
  t.deepEqual(running, ["a1"]);
});

test("work on behalf of all clients has reserved places, runs first, and is never rejected", (t) => {
  const { gate, running, enter } = open({ places: 3, reserved: 1, maximumWaiting: 0 });
  const client = enter("a");
  enter("b");
  t.throws(() => enter("c"), TOO_MANY);
  const waiting = ["all 1", "all 2", "all 3"].map((job) => enter(job, null));
  t.deepEqual(running, ["a", "b", "all 1"]);

  gate.end(client);
  t.deepEqual(running, ["a", "b", "all 1", "all 2"]);
  for (const pass of waiting) {
    gate.end(pass);
  }
  t.is(gate.runningCount(), 1);
});

test("a job that ends while it waits leaves the queue, and its end is reported to it", (t) => {
  const { gate, running, failed, enter } = open({ places: 1 });
  const first = enter("a1");
  const gone = enter("a2");
  enter("a3");

  gate.end(gone);
  gate.end(gone);
  t.deepEqual(failed, ["a2"]);
  gate.end(first);
  gate.retake(first);
  t.deepEqual(running, ["a1", "a3"]);
  t.is(gate.runningCount(), 1);
});

test("a job that ends late does not forget the jobs that its client has since", (t) => {
  const { gate, enter } = open({ places: 1 });
  const late = enter("a1");
  gate.leave(late);
  const other = enter("a2");
  gate.end(other);
  const running = enter("a3");
  gate.end(late);

  t.false(enter("a4").isRunning);
  gate.end(running);
  t.is(gate.runningCount(), 1);
});

test("a client may hold as many bytes as are free, so it alone is rejected", (t) => {
  const { gate, enter } = open({ places: 10, maximumBytes: 100 });
  const [first, second, other] = [enter("a1"), enter("a2"), enter("b1")];
  gate.hold(first, 30);
  gate.hold(second, 20);
  t.throws(() => gate.hold(second, 21), TOO_MANY_BODIES);
  gate.hold(other, 25);
  t.throws(() => gate.hold(other, 51), TOO_MANY_BODIES);

  gate.hold(first, 0);
  gate.end(second);
  gate.hold(other, 50);
  gate.end(other);
  gate.hold(first, 50);
});

test("jobs that end within their start do not start each other within that call", (t) => {
  const gate = new Gate({ places: 1 });
  const first = gate.enter("a");
  let depth = 0;
  const depths: number[] = [];
  for (let index = 0; index < 50; index += 1) {
    const pass = gate.enter(`client ${index}`);
    pass.resume = () => {
      depth += 1;
      depths.push(depth);
      gate.end(pass);
      depth -= 1;
    };
  }

  gate.end(first);
  t.deepEqual(depths, Array<number>(50).fill(1));
});

test("work runs when its client has a place, and ends its turn if it fails", async (t) => {
  const gate = new Gate({ places: 1 });
  const order: string[] = [];
  const failing = gate.run("a", async () => {
    order.push("first");
    await Promise.reject(new Error("broken"));
  });
  const next = gate.run("a", () => {
    order.push("next");
    return Promise.resolve("done");
  });

  await t.throwsAsync(failing, { message: "broken" });
  t.is(await next, "done");
  t.deepEqual(order, ["first", "next"]);
});

test("work that has waited too long is rejected and never runs", async (t) => {
  const gate = new Gate({ places: 1, maximumWaitMs: 1 });
  const first = gate.enter("a");
  let hasRun = false;
  const second = gate.run("a", () => {
    hasRun = true;
    return Promise.resolve();
  });

  await t.throwsAsync(second, TOO_MANY);
  gate.end(first);
  t.false(hasRun);
  t.is(gate.waitingCount(), 0);
});
