import type { FragmentSqlToken } from "slonik";
import { isContentError } from "../../db/isContentError.ts";
import { sql } from "../../db/sql.ts";
import { DomainError } from "../../domain/errors.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

const CONTENT_ERRORS: Readonly<Record<string, FragmentSqlToken>> = {
  "a sum beyond the range of its type": sql.fragment`SELECT 9223372036854775807 + 1`,
  "a malformed value": sql.fragment`SELECT 'x'::integer`,
  "a division by zero": sql.fragment`SELECT 1 / 0`,
  "a duplicate key": sql.fragment`INSERT INTO call_rate DEFAULT VALUES`,
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
  t.true(isContentError(new DomainError("request_invalid", "wrong")));
});
