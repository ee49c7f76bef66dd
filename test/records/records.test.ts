import test from "ava";
import { z } from "zod";
import { describeIssues, messageOfIssue } from "../../runtime/describeIssues.rules.ts";
import { centsToDollars, dollarsToCents, formatCents } from "../../modules/records/money.rules.ts";
import { nameDatabase, readDatabaseUrl } from "../../runtime/config/databaseUrl.ts";
import { count, date, metadata, text } from "../../modules/records/fields.rules.ts";
import {
  fromMicroseconds,
  readTimestamp,
  spreadTimes,
  TIMESTAMP_PATTERN,
  toMicroseconds,
} from "../../modules/records/timestamps.rules.ts";

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
  const issue: z.core.$ZodIssue = { code: "unrecognized_keys", keys: list, path: [], message: "" };
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

test("every amount of whole cents up to 10,000 dollars survives both conversions", (t) => {
  for (let cents = 0; cents <= 1_000_000; cents += 1) {
    if (dollarsToCents(centsToDollars(cents)) !== cents) {
      t.fail(`${cents} cents became ${dollarsToCents(centsToDollars(cents))}`);
    }
  }
  t.is(dollarsToCents(999_999_999.99), 99_999_999_999);
});

test("fractions of a cent and numbers that are not plain amounts are null", (t) => {
  const fractions = [1.005, 0.001, 0.30001, 0.29999, 1.23001, 1e-7];
  for (const dollars of [...fractions, 1e21, Number.NaN, Infinity, 2 ** 60]) {
    t.is(dollarsToCents(dollars), null, String(dollars));
  }
});

test("floating-point noise under a thousandth of a cent is rounded", (t) => {
  t.is(dollarsToCents(0.1 + 0.2), 30);
  t.is(dollarsToCents(0.7 + 0.1), 80);
  t.is(dollarsToCents(1.1 * 3), 330);
  t.is(dollarsToCents(4.35 * 100 - 434), 100);
  t.is(dollarsToCents(0.300009), 30);
  t.is(dollarsToCents(0.299991), 30);
  t.is(dollarsToCents(9.999999), 1000);
  t.is(dollarsToCents(-9.999999), -1000);
});

test("amounts are formatted with their sign, groups of three digits and both digits of the cents", (t) => {
  const cents = [0, 5, 50, 123, -7, -12_345, 99_999, 123_456, 9_007_199_254_740_991, -123_456];
  t.is(
    cents.map(formatCents).join(" "),
    "$0.00 $0.05 $0.50 $1.23 -$0.07 -$123.45 $999.99 $1,234.56 $90,071,992,547,409.91 -$1,234.56",
  );
});

const modesOf = (url: string): readonly string[] =>
  readDatabaseUrl(url).servers.map(({ sslMode }) => sslMode);

test("a connection is plain text on this machine, and encrypted elsewhere", (t) => {
  for (const url of [
    "postgres://localhost/impact",
    "postgres://127.0.0.1:5432/impact",
    "postgres://user:password@[::1]:5432/impact",
    "postgres:///impact",
    "postgres://user@/impact?host=/var/run/postgresql",
    "postgresql://%2Fvar%2Frun%2Fpostgresql/impact",
  ]) {
    t.deepEqual(modesOf(url), ["disable"], url);
  }
  for (const url of [
    "postgres://db.example.org/impact",
    "postgres://10.0.0.1/impact",
    "postgres://localhost.example.org/impact",
    "postgres://127.0.0.1.example.org/impact",
    "postgres:///impact?host=db.example.org",
  ]) {
    t.deepEqual(modesOf(url), ["require"], url);
  }
  t.deepEqual(modesOf("postgres://localhost,db.example.org/impact"), ["require", "require"]);
});

test("sslmode decides, except for a Unix socket", (t) => {
  t.deepEqual(modesOf("postgres://db.example.org/impact?sslmode=disable"), ["disable"]);
  t.deepEqual(modesOf("postgres://localhost/impact?sslmode=verify-full"), ["verify-full"]);
  t.deepEqual(modesOf("postgres://localhost/impact?sslmode=prefer"), ["disable"]);
  t.deepEqual(modesOf("postgres:///impact?host=/tmp&sslmode=require"), ["disable"]);
});

test("several hosts are tried in their order, and one that accepts no writes is passed over", (t) => {
  const { servers, mustAcceptWrites } = readDatabaseUrl(
    "postgres://user:pass%20word@db1:5432,db2:5433/impact?sslmode=disable&application_name=a%20b",
  );
  const common = { user: "user", password: "pass word", database: "impact", ssl: false };
  t.like(servers, [{ name: "db1:5432" }, { name: "db2:5433" }]);
  t.is(servers.length, 2);
  t.like(servers[0]?.config, { host: "db1", port: 5432, application_name: "a b", ...common });
  t.like(servers[1]?.config, { host: "db2", port: 5433, application_name: "a b", ...common });
  t.true(mustAcceptWrites);
  t.false(readDatabaseUrl("postgres://db1,db2/impact?target_session_attrs=any").mustAcceptWrites);
  t.false(readDatabaseUrl("postgres://db1/impact").mustAcceptWrites);
  t.true(readDatabaseUrl("postgres://db1/impact?target_session_attrs=primary").mustAcceptWrites);
});

const rejects = test.macro({
  exec: (t, url: string, message: RegExp) => {
    t.throws(() => readDatabaseUrl(url), { message });
  },
  title: (_, url) => `${String(url)} is rejected`,
});

test(rejects, "mysql://db/impact", /must be a URL like postgres/u);
test(rejects, "postgres://db:port/impact", /must be a URL like postgres/u);
test(rejects, "postgres://db1,,db2/impact", /must be a URL like postgres/u);
test(rejects, "postgres://db/impact?sslmode=full", /unknown sslmode; supported: disable, require/u);
test(rejects, "postgres://db/impact?sslmode=prefer", /plain text; set require/u);
test(rejects, "postgres://db1,localhost/impact?sslmode=allow", /plain text; set require/u);
test(rejects, "postgres://db/impact?sslmode=verify-ca", /without sslrootcert/u);
test(rejects, "postgres://db/impact?sslcrl=crl.pem", /sslcrl, which is not supported/u);
const UNSUPPORTED =
  "connect_timeout channel_binding ssl sslnegotiation schema pgbouncer connection_limit foo";
for (const name of UNSUPPORTED.split(" ")) {
  const message = new RegExp(`has ${name}, .*supported: sslmode`, "u");
  test(rejects, `postgres://db/impact?${name}=1`, message);
}
for (const password of ["a/b", "1/b", "a?b", "a#b", "#", "1?b"]) {
  const url = `postgres://user:${password}@db/impact`;
  test(rejects, url, /%2F, %3F and %23 for .* in the password/u);
}
test(rejects, "postgres://db/impact?sslcert=cert.pem", /only one of sslcert and sslkey/u);
test(rejects, "postgres://db/impact?target_session_attrs=standby", /supported.*read-write/u);

test("a database is named without its password", (t) => {
  const url = "postgres://user:a@b:c@db1:5432,db2/impact?sslmode=require";
  t.is(nameDatabase(url), "db1:5432,db2/impact");
  t.is(nameDatabase("postgres:///impact?host=/tmp"), "/tmp/impact");
});

/** Returns the messages about a value with their paths. */
const messagesOf = (schema: z.ZodType, value: unknown): readonly string[] =>
  (schema.safeParse(value).error?.issues ?? []).map(({ path, message }) =>
    path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`,
  );

const NOT_STORABLE = "must be well-formed Unicode without NUL characters";
const TOO_LONG = "must be at most 3 characters";
const COUNT = "must be an integer of at least 1";
const DATE = "must be a calendar date in the form YYYY-MM-DD";
const DEEP = "must not be nested deeper than 8 levels";
const LARGE = "must be at most 65536 bytes as JSON with all digits written out";
const LEVELS = "a.a.a.a.a.a.a.a";

const nest = (levels: number): unknown =>
  Array.from({ length: levels }).reduce<unknown>((inner) => ({ a: inner }), 1);

/** Fields, their values, and the messages about each value: none if it is accepted. */
const FIELDS: readonly (readonly [z.ZodType, readonly unknown[], ...string[]])[] = [
  // A character outside the basic plane counts once. The limit counts characters, not bytes.
  [text(3), ["", "abc", "🌳🌳🌳"]],
  [text(3), ["abcd", "🌳🌳🌳🌳"], TOO_LONG],
  [text(3), ["a\0", "a\ud83c"], NOT_STORABLE],
  [text(3), ["abc\0"], TOO_LONG, NOT_STORABLE],
  [text(3), [undefined], "required"],
  [text(3), [1], "must be a string"],
  [count(), [1, 2 ** 53 - 1]],
  [count(), [0, -1, 1.5, Infinity, Number.NaN, "1", true, [1], null], COUNT],
  [count(), [2 ** 53], "must be at most 9007199254740991"],
  [count(), [undefined], "required"],
  [date(), ["0001-01-01", "2026-02-28", "2028-02-29", "2000-02-29", "9999-12-31"]],
  [date(), ["0000-01-01", "2026-02-29", "2100-02-29", "2026-04-31", "2026-13-01"], DATE],
  [date(), ["2026-00-10", "2026-1-1", "2026-01-01T00:00:00Z", ""], DATE],
  // Lists are levels as well.
  [metadata(), [{}, nest(8), { a: [[[[[[[1]]]]]]] }]],
  [metadata(), [nest(9)], `${LEVELS}: ${DEEP}`],
  [metadata(), [{ a: [[[[[[[[1]]]]]]]] }], `a.0.0.0.0.0.0.0: ${DEEP}`],
  [metadata(), [null, [], "{}", 1, undefined], "must be a JSON object"],
  [metadata(), [JSON.parse('{"a":{"__proto__":1}}')], "a.__proto__: is not an allowed name"],
  [metadata(), [{ "a\0": 1 }], `a\0: ${NOT_STORABLE} in its name`],
  [metadata(), [{ a: ["\0"] }], `a.0: ${NOT_STORABLE}`],
  [metadata(), [JSON.parse('{"a":1e400}')], "a: must be a finite number"],
  // {"a":"…"} is eight bytes plus the text. {"a":[1e+300,…]} is seven bytes and seven per number, which PostgreSQL writes
  // with 300 more digits.
  [
    metadata(),
    [{ a: "x".repeat(65_528) }, { a: "é".repeat(32_764) }, { a: Array(213).fill(1e300) }],
  ],
  [metadata(), [{ a: "x".repeat(65_529) }, { a: `${"é".repeat(32_764)}x` }], LARGE],
  [metadata(), [{ a: Array(214).fill(1e300) }, { a: Array(214).fill(1e-300) }], LARGE],
];

test("a field has a message for each problem of a value", (t) => {
  for (const [schema, values, ...messages] of FIELDS) {
    for (const value of values) {
      t.deepEqual(messagesOf(schema, value), messages, JSON.stringify(value)?.slice(0, 100));
    }
  }
});

test("a timestamp of ISO 8601 is read in UTC, in microseconds", (t) => {
  for (const [given, down, up = down] of [
    ["2026-03-10T09:08:07.006001Z", "2026-03-10T09:08:07.006001Z"],
    ["2026-03-10T09:08:07.5", "2026-03-10T09:08:07.500000Z"],
    ["2026-03-10T11:08:07.123456+02:00", "2026-03-10T09:08:07.123456Z"],
    ["2026-03-10T11:08:07.123456 02:00", "2026-03-10T09:08:07.123456Z"],
    ["2026-03-10T05:08:07,12-0400", "2026-03-10T09:08:07.120000Z"],
    ["20260310T110807.123456+02", "2026-03-10T09:08:07.123456Z"],
    ["2026-03-10T09:08", "2026-03-10T09:08:00.000000Z"],
    ["2026-03-10", "2026-03-10T00:00:00.000000Z"],
    [
      "2026-03-10T09:08:07.123456001Z",
      "2026-03-10T09:08:07.123456Z",
      "2026-03-10T09:08:07.123457Z",
    ],
    ["2026-12-31T23:59:59.9999999Z", "2026-12-31T23:59:59.999999Z", "2027-01-01T00:00:00.000000Z"],
  ] as const) {
    t.is(readTimestamp(given, "down"), down, given);
    t.is(readTimestamp(given, "up"), up, given);
    t.regex(given, new RegExp(TIMESTAMP_PATTERN, "u"));
    t.is(fromMicroseconds(toMicroseconds(down)), down);
  }
});

test("a text that is not a timestamp is not read as one", (t) => {
  for (const given of [
    "",
    "_",
    "yesterday",
    "2026-03",
    "2026-02-30",
    "2026-03-10T24:00:00Z",
    "2026-03-10T09:08:07.Z",
    "2026-03-10T09:08:07Z_0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
  ]) {
    t.is(readTimestamp(given, "up"), null, given);
    t.notRegex(given, new RegExp(TIMESTAMP_PATTERN, "u"));
  }
});

test("equal times become unique, each the first that is free", (t) => {
  t.deepEqual(spreadTimes([5, 5, 6, 5, 2, 9], []), [5, 6, 7, 8, 2, 9]);
  t.deepEqual(spreadTimes([5, 5, 8, 5], [5, 7, 8]), [6, 9, 10, 11]);
});
