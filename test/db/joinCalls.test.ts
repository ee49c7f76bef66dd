import type { FragmentSqlToken } from "slonik";
import { isContentError } from "../../db/databaseErrors.ts";
import { joinCalls } from "../../db/batching/joinCalls.ts";
import { sql } from "../../db/sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

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
      throw invalidRequest("bad content");
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

const CONTENT_ERRORS: Readonly<Record<string, FragmentSqlToken>> = {
  "a sum beyond the range of its type": sql.fragment`SELECT 9223372036854775807 + 1`,
  "a malformed value": sql.fragment`SELECT 'x'::integer`,
  "a division by zero": sql.fragment`SELECT 1 / 0`,
  "a duplicate key": sql.fragment`INSERT INTO deployment DEFAULT VALUES`,
};

for (const [title, statement] of Object.entries(CONTENT_ERRORS)) {
  test(`${title} is an error of the content`, async (t) => {
    const error = await t.throwsAsync(t.context.owner.query(sql.typeAlias("void")`${statement}`));
    t.true(isContentError(error), `${error.name}: ${error.message}`);
  });
}

test("a statement that is wrong, or takes too long, is no error of the content", async (t) => {
  const { owner } = t.context;
  const wrong = await t.throwsAsync(owner.query(sql.typeAlias("void")`SELECT nothing`));
  const slow = await t.throwsAsync(
    owner.transaction(async (transaction) => {
      await transaction.query(sql.typeAlias("void")`SET LOCAL statement_timeout = 50`);
      await transaction.query(sql.typeAlias("void")`SELECT pg_sleep(60)`);
    }),
  );

  t.false(isContentError(wrong), wrong.message);
  t.false(isContentError(slow), slow.message);
  t.true(isContentError(invalidRequest("wrong")));
});
