import test from "ava";
import { createConnectionShares, sharesOfOneKind } from "../../db/connections/connectionShares.ts";
import { DomainError } from "../../domain/errors.ts";

const createTurns = (
  connections: number,
  options: { readonly maximumWaiting?: number; readonly maximumWaitMs?: number } = {},
) => {
  const shares = createConnectionShares(sharesOfOneKind(connections), options);
  return <Result>(owner: string, work: () => Promise<Result>): Promise<Result> =>
    shares.run({ accountId: owner, kind: "list" }, work);
};

/** Work that lasts until the test ends it, and records when it starts. */
const createWork = () => {
  const started: string[] = [];
  const ends: (() => void)[] = [];
  return {
    started,
    work: (name: string) => () => {
      started.push(name);
      return new Promise<void>((resolve) => {
        ends.push(resolve);
      });
    },
    endFirst: async (): Promise<void> => {
      ends.shift()?.();
      await new Promise(setImmediate);
    },
  };
};

test("owners take turns, and one owner never has the last connection", async (t) => {
  const turns = createTurns(3);
  const { started, work, endFirst } = createWork();
  const busy = Array.from({ length: 6 }, (_, index) => turns("busy", work(`busy ${index}`)));
  await new Promise(setImmediate);
  t.deepEqual(started, ["busy 0", "busy 1"]);

  const others = ["a", "b", "c"].map((owner) => turns(owner, work(owner)));
  await new Promise(setImmediate);
  t.deepEqual(started, ["busy 0", "busy 1", "a"]);
  await endFirst();
  t.deepEqual(started.slice(3), ["busy 2"], "it has waited longer than b");
  await endFirst();
  await endFirst();
  t.deepEqual(started.slice(4), ["b", "c"]);
  await endFirst();
  t.deepEqual(started.slice(6), ["busy 3"]);
  for (let left = 0; left < 6; left += 1) {
    await endFirst();
  }
  await Promise.all([...busy, ...others]);
  t.is(started.length, 9);
});

test("an owner with too much waiting work is rejected, and others are not", async (t) => {
  const turns = createTurns(1, { maximumWaiting: 2 });
  const { work, endFirst } = createWork();
  const accepted = [1, 2, 3].map(() => turns("busy", work("busy")));
  await t.throwsAsync(turns("busy", work("busy")), { instanceOf: DomainError });
  const other = turns("other", work("other"));

  for (let left = 0; left < 4; left += 1) {
    await endFirst();
  }
  await t.notThrowsAsync(Promise.all([...accepted, other]));
});

test("work that has waited too long is rejected and never starts", async (t) => {
  const turns = createTurns(1, { maximumWaitMs: 1 });
  const { started, work, endFirst } = createWork();
  const first = turns("owner", work("first"));

  const error = await t.throwsAsync<DomainError>(turns("owner", work("second")));
  t.is(error?.code, "queue_full");
  await endFirst();
  await first;
  t.deepEqual(started, ["first"]);
});

test("work that fails ends its turn", async (t) => {
  const turns = createTurns(1);
  await t.throwsAsync(
    turns("owner", () => Promise.reject(new Error("broken"))),
    { message: "broken" },
  );
  t.is(await turns("owner", () => Promise.resolve("next")), "next");
});
