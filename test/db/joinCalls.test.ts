import test from "ava";
import { joinCalls } from "../../db/joinCalls.ts";
import { DomainError } from "../../domain/errors.ts";

test("calls of the same time are written together, each with its own result", async (t) => {
  const groups: (readonly number[])[] = [];
  const double = joinCalls(async (items: readonly number[]) => {
    groups.push(items);
    return items.map((item) => item * 2);
  });

  t.deepEqual(await Promise.all([double(1), double(2), double(3)]), [2, 4, 6]);
  t.is(await double(4), 8);
  t.deepEqual(groups, [[1, 2, 3], [4]]);
});

test("an item whose content is rejected fails alone", async (t) => {
  const write = joinCalls(async (items: readonly string[]) => {
    if (items.includes("bad")) {
      throw new DomainError("request_invalid", "bad content");
    }
    return items;
  });

  const results = await Promise.allSettled([write("one"), write("bad"), write("two")]);

  t.deepEqual(
    results.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
});

test("any other error fails all items of its group and none of the next", async (t) => {
  let fails = true;
  const write = joinCalls(async (items: readonly number[]) => {
    if (fails) {
      throw new Error("the connection was lost");
    }
    return items;
  });

  const results = await Promise.allSettled([write(1), write(2)]);
  t.true(results.every(({ status }) => status === "rejected"));
  fails = false;
  t.is(await write(3), 3);
});

test("a group has at most 500 items", async (t) => {
  const sizes: number[] = [];
  const write = joinCalls(async (items: readonly number[]) => {
    sizes.push(items.length);
    return items;
  });

  await Promise.all(Array.from({ length: 1100 }, (_, index) => write(index)));

  t.deepEqual(sizes, [500, 500, 100]);
});
