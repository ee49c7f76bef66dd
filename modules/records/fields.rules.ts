import { z } from "zod";
import { mustBe } from "../../runtime/describeIssues.rules.ts";

/** A JSON object that a client attaches to its records, to filter by. */
export type Metadata = Readonly<Record<string, unknown>>;

const METADATA = { id: "Metadata", description: "A JSON object." };

const METADATA_DEPTH = 8;
const METADATA_BYTES = 64 * 1024;

const NOT_STORABLE = "must be well-formed Unicode without NUL characters";

/** PostgreSQL stores neither NUL nor half of a surrogate pair. */
const isStorable = (text: string): boolean => !text.includes("\0") && text.isWellFormed();

/** Text of limited length in Unicode characters. */
export const text = (maximumLength: number) =>
  z
    .string({ error: mustBe("a string") })
    .refine(
      (value) =>
        value.length <= maximumLength ||
        // A character has at most two UTF-16 units.
        (value.length <= 2 * maximumLength && Array.from(value).length <= maximumLength),
      `must be at most ${maximumLength} characters`,
    )
    .refine(isStorable, NOT_STORABLE)
    .meta({ maxLength: maximumLength, pattern: "^[^\\u0000]*$" });

/** The length of names, ids, keys and tags. */
export const SHORT_TEXT_LENGTH = 1000;
export const shortText = () => text(SHORT_TEXT_LENGTH);

/** The length of notes and reasons. */
export const LONG_TEXT_LENGTH = 10_000;
export const longText = () => text(LONG_TEXT_LENGTH);

const numberAsText = (given: unknown): unknown =>
  Number.isSafeInteger(given) ? String(given) : given;

/** Text such as an id or an order number, which clients also send as a number. */
export const textOrNumber = (maximumLength = SHORT_TEXT_LENGTH) =>
  z
    .preprocess(numberAsText, text(maximumLength))
    // The API description names only the string, because clients that are generated from a union are awkward.
    .meta({ type: "string", maxLength: maximumLength });

export const emptyAsNull = (given: string): string | null => (given === "" ? null : given);

export const blankAsNull = (given: string): string | null => (given.trim() === "" ? null : given);

const COUNT_MUST_BE = "an integer of at least 1";

/** A count of units that JSON represents exactly. Accounts have lower limits, so only a number beyond the maximum names it. */
export const count = () =>
  z
    .int({
      error: (issue) =>
        issue.code === "too_big"
          ? `must be at most ${Number.MAX_SAFE_INTEGER}`
          : mustBe(COUNT_MUST_BE)(issue),
    })
    .min(1, `must be ${COUNT_MUST_BE}`);

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/iu;

/** Returns whether a text is a UUID of any version. A schema would create an error for each text that is none. */
export const isUuid = (given: string): boolean => UUID.test(given);

/** The id of a record. A text that cannot be one is an id that does not exist. */
export const recordId = () =>
  z.preprocess(
    numberAsText,
    z.string({ error: mustBe("a string") }).meta({ pattern: String.raw`\S` }),
  );

const DATE_MUST_BE = "a calendar date in the form YYYY-MM-DD";

/** A calendar date, `YYYY-MM-DD`, from the year 1: PostgreSQL has no year 0. */
export const date = () =>
  z.iso
    .date({ error: mustBe(DATE_MUST_BE) })
    .refine((value) => !value.startsWith("0000"), `must be ${DATE_MUST_BE}`);

type Problem = { readonly path: readonly string[]; readonly message: string };

const problemOf = (message: string): Problem => ({ path: [], message });

/** Returns how many digits PostgreSQL adds to a number: `1e300` is five characters in JSON and 301 in `jsonb`. */
const addedDigits = (value: number): number => {
  const size = Math.abs(value);
  // JavaScript writes these without an exponent.
  if (size === 0 || (size >= 1e-6 && size < 1e21)) {
    return 0;
  }
  const digits = String(value);
  return Math.abs(Number(digits.slice(digits.indexOf("e") + 1)));
};

const isList = (value: object): value is readonly unknown[] => Array.isArray(value);

const findNameProblem = (name: string): Problem | null => {
  if (name === "__proto__") {
    return problemOf("is not an allowed name");
  }
  return isStorable(name) ? null : problemOf(`${NOT_STORABLE} in its name`);
};

const findProblem = (metadata: object): Problem | null => {
  let digits = 0;
  /** It reads no deeper than the levels that are allowed, so that deep nesting cannot exhaust the stack. */
  const findIn = (value: unknown, level: number): Problem | null => {
    if (typeof value === "string") {
      return isStorable(value) ? null : problemOf(NOT_STORABLE);
    }
    if (typeof value === "number") {
      digits += addedDigits(value);
      return Number.isFinite(value) ? null : problemOf("must be a finite number");
    }
    if (typeof value !== "object" || value === null) {
      return null;
    }
    if (level >= METADATA_DEPTH) {
      return problemOf(`must not be nested deeper than ${METADATA_DEPTH} levels`);
    }
    // The names of a list's entries, which are their indexes, would take several times as long.
    const names = isList(value) ? null : Object.keys(value);
    const inner: readonly unknown[] = isList(value) ? value : Object.values(value);
    for (const [index, entry] of inner.entries()) {
      const name = names?.[index];
      const problem =
        (name === undefined ? null : findNameProblem(name)) ?? findIn(entry, level + 1);
      if (problem !== null) {
        return { ...problem, path: [name ?? String(index), ...problem.path] };
      }
    }
    return null;
  };
  return (
    findIn(metadata, 0) ??
    (Buffer.byteLength(JSON.stringify(metadata)) + digits > METADATA_BYTES
      ? problemOf(`must be at most ${METADATA_BYTES} bytes as JSON with all digits written out`)
      : null)
  );
};

const isObject = (value: unknown): value is Metadata =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A JSON object of limited size and depth. `z.record` would drop a pair named `__proto__`, and copies all others. */
export const metadata = () =>
  z
    .unknown()
    .meta({ type: "object", additionalProperties: {} })
    .transform((value, context): Metadata => {
      const problem = isObject(value) ? findProblem(value) : problemOf("must be a JSON object");
      if (problem) {
        context.addIssue({ code: "custom", path: [...problem.path], message: problem.message });
      }
      return isObject(value) ? value : z.NEVER;
    })
    .meta(METADATA);

export const storedMetadata = z.record(z.string(), z.unknown()).meta(METADATA);
