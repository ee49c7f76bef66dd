import test from "ava";
import { z } from "zod";
import { describeIssues, messageOfIssue } from "../../domain/describeIssues.ts";

const UNKNOWN_NAMES = 100_000;

/** Returns a list and how many of its entries have been read. */
const countReads = (entries: readonly string[]) => {
  let reads = 0;
  const list = new Proxy([...entries], {
    get: (target, name, receiver): unknown => {
      reads += typeof name === "string" && /^\d+$/u.test(name) ? 1 : 0;
      return Reflect.get(target, name, receiver);
    },
  });
  return { list, reads: () => reads };
};

const names = Array.from({ length: UNKNOWN_NAMES }, (_, index) => `n${index}`);

test("twenty lines are shown, and of many unknown names no others are read", (t) => {
  const { list, reads } = countReads(names);
  const issue: z.core.$ZodIssue = {
    code: "unrecognized_keys",
    keys: list,
    path: [],
    message: "",
  };
  const other: z.core.$ZodIssue = { code: "custom", path: ["count"], message: "required" };

  const lines = describeIssues([other, issue, other], "field").split("; ");

  t.is(lines.length, 21);
  t.is(lines[0], "count: required");
  t.is(lines[19], "n18: unknown field");
  t.is(lines[20], `and ${UNKNOWN_NAMES + 2 - 20} more`);
  t.true(reads() <= 20, String(reads()));
});

test("the message of an issue does not list all unknown names", (t) => {
  const body = Object.fromEntries(names.map((name) => [name, 0]));
  const { error } = z.strictObject({}).safeParse(body, { error: messageOfIssue });
  t.is(error?.issues[0]?.message.length, "unknown names".length);
});
