import test from "ava";
import type { z } from "zod";
import { count, date, metadata, text } from "../../domain/fields.ts";

/** Returns the messages about a value with their paths. */
const messagesOf = (schema: z.ZodType, value: unknown): readonly string[] =>
  (schema.safeParse(value).error?.issues ?? []).map(({ path, message }) =>
    path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`,
  );

const hasMessages = test.macro({
  exec: (t, schema: z.ZodType, value: unknown, ...messages: readonly string[]) => {
    t.deepEqual(messagesOf(schema, value), messages);
  },
  title: (title = "") => title,
});

const NOT_STORABLE = "must be well-formed Unicode without NUL characters";
const TOO_LONG = "must be at most 3 characters";

test("text may be empty", hasMessages, text(3), "");
test("text may have the maximum length", hasMessages, text(3), "abc");
test("text must not be longer", hasMessages, text(3), "abcd", TOO_LONG);
test("a character outside the basic plane counts once", hasMessages, text(3), "🌳🌳🌳");
test("the limit counts characters, not bytes", hasMessages, text(3), "🌳🌳🌳🌳", TOO_LONG);
test("text with a NUL is rejected", hasMessages, text(3), "a\0", NOT_STORABLE);
test("text with half a surrogate pair is rejected", hasMessages, text(3), "a\ud83c", NOT_STORABLE);
test(
  "text that is too long and not storable has both messages",
  hasMessages,
  text(3),
  "abc\0",
  TOO_LONG,
  NOT_STORABLE,
);
test("text is required", hasMessages, text(3), undefined, "required");
test("a number is not text", hasMessages, text(3), 1, "must be a string");

const COUNT = "must be an integer of at least 1";

test("1 is a count", hasMessages, count(), 1);
test("2^53 - 1 is a count", hasMessages, count(), 2 ** 53 - 1);
for (const value of [0, -1, 1.5, Infinity, Number.NaN, "1", null]) {
  test(
    `${JSON.stringify(value)} (${String(value)}) is not a count`,
    hasMessages,
    count(),
    value,
    COUNT,
  );
}
test("2^53 is not a count", hasMessages, count(), 2 ** 53, "must be at most 9007199254740991");
test("a count is required", hasMessages, count(), undefined, "required");

const DATE = "must be a calendar date in the form YYYY-MM-DD";

for (const day of ["0001-01-01", "2026-02-28", "2028-02-29", "2000-02-29", "9999-12-31"]) {
  test(`${day} is a date`, hasMessages, date(), day);
}
for (const day of [
  "0000-01-01",
  "2026-02-29",
  "2100-02-29",
  "2026-04-31",
  "2026-13-01",
  "2026-00-10",
  "2026-1-1",
  "2026-01-01T00:00:00Z",
  "",
]) {
  test(`"${day}" is not a date`, hasMessages, date(), day, DATE);
}

const nest = (levels: number): unknown =>
  Array.from({ length: levels }).reduce<unknown>((inner) => ({ a: inner }), 1);

const OBJECT = "must be a JSON object";
const DEEP = "must not be nested deeper than 8 levels";
const LARGE = "must be at most 16384 bytes as JSON with all digits written out";
const LEVELS = "a.a.a.a.a.a.a.a";

test("metadata may be empty", hasMessages, metadata(), {});
test("metadata may be nested eight levels deep", hasMessages, metadata(), nest(8));
test("metadata must not be nested deeper", hasMessages, metadata(), nest(9), `${LEVELS}: ${DEEP}`);
test("lists are levels as well", hasMessages, metadata(), { a: [[[[[[[1]]]]]]] });
test(
  "a list that is nested too deep is rejected",
  hasMessages,
  metadata(),
  { a: [[[[[[[[1]]]]]]]] },
  `a.0.0.0.0.0.0.0: ${DEEP}`,
);
for (const value of [null, [], "{}", 1, undefined]) {
  test(`${JSON.stringify(value)} is not metadata`, hasMessages, metadata(), value, OBJECT);
}
test(
  "the name __proto__ is rejected at any depth",
  hasMessages,
  metadata(),
  JSON.parse('{"a":{"__proto__":1}}'),
  "a.__proto__: is not an allowed name",
);
test(
  "a name with a NUL is rejected",
  hasMessages,
  metadata(),
  { "a\0": 1 },
  `a\0: ${NOT_STORABLE} in its name`,
);
test(
  "a value with a NUL is rejected",
  hasMessages,
  metadata(),
  { a: ["\0"] },
  `a.0: ${NOT_STORABLE}`,
);
test(
  "a number beyond a double is rejected",
  hasMessages,
  metadata(),
  JSON.parse('{"a":1e400}'),
  "a: must be a finite number",
);

// {"a":"…"} is eight bytes plus the text.
test("metadata may have 16 KiB", hasMessages, metadata(), { a: "x".repeat(16_376) });
test("metadata must not be larger", hasMessages, metadata(), { a: "x".repeat(16_377) }, LARGE);
test("the size of metadata is in bytes", hasMessages, metadata(), { a: "é".repeat(8188) });
test("one more byte is too many", hasMessages, metadata(), { a: `${"é".repeat(8188)}x` }, LARGE);
// {"a":[1e+300,…]} is seven bytes and seven per number, which PostgreSQL writes with 300 more digits.
test("digits that PostgreSQL adds count", hasMessages, metadata(), { a: Array(53).fill(1e300) });
test(
  "digits of one more number are too many",
  hasMessages,
  metadata(),
  { a: Array(54).fill(1e300) },
  LARGE,
);
test(
  "digits after the decimal point count",
  hasMessages,
  metadata(),
  { a: Array(54).fill(1e-300) },
  LARGE,
);

test("metadata that is too large is not read to its end", (t) => {
  let reads = 0;
  const list = new Proxy(Array<number>(100_000).fill(0), {
    get: (target, name, receiver): unknown => {
      reads += 1;
      return Reflect.get(target, name, receiver);
    },
  });
  t.deepEqual(messagesOf(metadata(), { a: list }), [LARGE]);
  t.true(reads < 100, String(reads));
});
