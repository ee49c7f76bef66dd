import test from "ava";
import type { z } from "zod";
import { count, date, metadata, text } from "../../domain/fields.ts";

/** What is wrong with a value, by where it is; none when nothing is. */
const faultsOf = (schema: z.ZodType, value: unknown): readonly string[] =>
  (schema.safeParse(value).error?.issues ?? []).map(({ path, message }) =>
    path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`,
  );

const judges = test.macro({
  exec: (t, schema: z.ZodType, value: unknown, ...faults: readonly string[]) => {
    t.deepEqual(faultsOf(schema, value), faults);
  },
  title: (title = "") => title,
});

const NOT_STORABLE = "must be well-formed Unicode without NUL characters";
const TOO_LONG = "must be at most 3 characters";

test("text may be empty", judges, text(3), "");
test("text may be as long as the limit", judges, text(3), "abc");
test("text may not be longer", judges, text(3), "abcd", TOO_LONG);
test("characters count, not halves of them", judges, text(3), "🌳🌳🌳");
test("one character too many is one, however many bytes", judges, text(3), "🌳🌳🌳🌳", TOO_LONG);
test("text with a NUL is refused", judges, text(3), "a\0", NOT_STORABLE);
test("text with half a character is refused", judges, text(3), "a\ud83c", NOT_STORABLE);
test(
  "text that is too long and not storable is both",
  judges,
  text(3),
  "abc\0",
  TOO_LONG,
  NOT_STORABLE,
);
test("a missing text is required", judges, text(3), undefined, "required");
test("a number is no text", judges, text(3), 1, "must be a string");

const COUNT = "must be an integer from 1 to 9007199254740991";

test("one is counted", judges, count(), 1);
test("2^53 - 1 are counted", judges, count(), 2 ** 53 - 1);
for (const value of [0, -1, 1.5, 2 ** 53, Infinity, Number.NaN, "1", null]) {
  test(`${JSON.stringify(value)} (${String(value)}) is no count`, judges, count(), value, COUNT);
}
test("a missing count is required", judges, count(), undefined, "required");

const DATE = "must be a calendar date in the form YYYY-MM-DD";

for (const day of ["0001-01-01", "2026-02-28", "2028-02-29", "2000-02-29", "9999-12-31"]) {
  test(`${day} is a date`, judges, date(), day);
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
  test(`"${day}" is no date`, judges, date(), day, DATE);
}

const nest = (levels: number): unknown =>
  Array.from({ length: levels }).reduce<unknown>((inner) => ({ a: inner }), 1);

const OBJECT = "must be a JSON object";
const DEEP = "must not be nested deeper than 8 levels";
const LARGE = "must be at most 16384 bytes as JSON with all digits written out";
const LEVELS = "a.a.a.a.a.a.a.a";

test("metadata may be empty", judges, metadata(), {});
test("metadata may be nested eight levels deep", judges, metadata(), nest(8));
test("metadata may not be nested deeper", judges, metadata(), nest(9), `${LEVELS}: ${DEEP}`);
test("lists are levels too", judges, metadata(), { a: [[[[[[[1]]]]]]] });
test(
  "a list too deep is refused",
  judges,
  metadata(),
  { a: [[[[[[[[1]]]]]]]] },
  `a.0.0.0.0.0.0.0: ${DEEP}`,
);
for (const value of [null, [], "{}", 1, undefined]) {
  test(`${JSON.stringify(value)} is no metadata`, judges, metadata(), value, OBJECT);
}
test(
  "a name that would be the prototype is refused, however deep",
  judges,
  metadata(),
  JSON.parse('{"a":{"__proto__":1}}'),
  "a.__proto__: is not an allowed name",
);
test(
  "a name with a NUL is refused",
  judges,
  metadata(),
  { "a\0": 1 },
  `a\0: ${NOT_STORABLE} in its name`,
);
test("a value with a NUL is refused", judges, metadata(), { a: ["\0"] }, `a.0: ${NOT_STORABLE}`);
test(
  "a number beyond a double is refused",
  judges,
  metadata(),
  JSON.parse('{"a":1e400}'),
  "a: must be a finite number",
);

// {"a":"…"} is eight bytes without what is between the quotes.
test("metadata may be of 16 KiB", judges, metadata(), { a: "x".repeat(16_376) });
test("metadata may not be larger", judges, metadata(), { a: "x".repeat(16_377) }, LARGE);
test("bytes count, not characters", judges, metadata(), { a: "é".repeat(8188) });
test("a byte more is too many", judges, metadata(), { a: `${"é".repeat(8188)}x` }, LARGE);
// {"a":[1e+300,…]} is seven bytes and seven for each number, which PostgreSQL writes with 300 digits more.
test("digits that are written out count", judges, metadata(), { a: Array(53).fill(1e300) });
test("so do those of one number more", judges, metadata(), { a: Array(54).fill(1e300) }, LARGE);
test("and those after the point", judges, metadata(), { a: Array(54).fill(1e-300) }, LARGE);
