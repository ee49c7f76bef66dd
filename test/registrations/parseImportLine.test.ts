import test from "ava";
import { parseImportLine } from "../../cli/commands/registrations/parseImportLine.ts";
import { contentOf } from "../../domain/registrations/importedRegistration.ts";
import type { ImportedRegistration } from "../../domain/registrations/importedRegistration.ts";

const now = new Date("2026-05-01T12:00:00.000Z");

const read = (fields: Readonly<Record<string, unknown>> | string, fractionalCounting = true) =>
  parseImportLine(
    typeof fields === "string"
      ? fields
      : JSON.stringify({
          kind: "tree",
          count: 1,
          created_at: "2025-06-01T12:00:00Z",
          ...fields,
        }),
    { now, fractionalCounting },
  );

const plain: ImportedRegistration = {
  kind: "tree",
  count: 1,
  fractionalCount: 0,
  createdAt: new Date("2025-06-01T12:00:00Z"),
  idempotencyKey: null,
  attribution: "",
  metadata: {},
};

const accepts = test.macro({
  exec: (
    t,
    fields: Readonly<Record<string, unknown>>,
    expected: Partial<ImportedRegistration> = {},
  ) => {
    t.deepEqual(read(fields), { registration: { ...plain, ...expected } });
  },
  title: (title = "") => `a line is accepted ${title}`,
});

const rejects = test.macro({
  exec: (t, fields: Readonly<Record<string, unknown>> | string, problem: string) => {
    t.deepEqual(read(fields), { problem });
  },
  title: (title = "") => `a line is rejected ${title}`,
});

const MOST = Number.MAX_SAFE_INTEGER;
const CREATED_AT = "created_at: must be a time with an offset, such as 2025-06-01T12:00:00Z";
const COUNT = `count: must be an integer from 1 to ${MOST}`;

test("with only the required fields", accepts, {});
test("that registers bottles", accepts, { kind: "bottle" }, { kind: "bottle" });
test("with the largest count", accepts, { count: MOST }, { count: MOST });
test("that was created now", accepts, { created_at: now.toISOString() }, { createdAt: now });
test(
  "that was created in the first millisecond of 1970",
  accepts,
  { created_at: "1970-01-01T01:00:00.000+01:00" },
  { createdAt: new Date(0) },
);
test(
  "that was created on a leap day in another time zone",
  accepts,
  { created_at: "2024-02-29T23:30:00-02:00" },
  { createdAt: new Date("2024-03-01T01:30:00Z") },
);
test("with an empty key, which means none", accepts, { idempotency_key: "" });
test("with a key of one space", accepts, { idempotency_key: " " }, { idempotencyKey: " " });
test(
  "with every optional field",
  accepts,
  { fractional_count: 0.5, attribution: "a", metadata: { b: [1] } },
  { fractionalCount: 0.5, attribution: "a", metadata: { b: [1] } },
);

test("that is not JSON", rejects, "{", "not valid JSON");
test("that is empty", rejects, "", "not valid JSON");
test("that is a list", rejects, "[]", "the line must be a JSON object");
test("that is null", rejects, "null", "the line must be a JSON object");
test("with an unknown kind", rejects, { kind: "coral" }, "kind: must be tree or bottle");
test("with a count of 0", rejects, { count: 0 }, COUNT);
test("with a fraction as count", rejects, { count: 1.5 }, COUNT);
test("with a count that JSON cannot represent", rejects, { count: MOST + 1 }, COUNT);
test("with an unknown field", rejects, { counts: 2 }, "counts: unknown field");
test("with a date instead of a time", rejects, { created_at: "2025-06-01" }, CREATED_AT);
test("with a time without an offset", rejects, { created_at: "2025-06-01T12:00:00" }, CREATED_AT);
test(
  "with a date that does not exist",
  rejects,
  { created_at: "2025-02-29T12:00:00Z" },
  CREATED_AT,
);
test(
  "that was created before 1970",
  rejects,
  { created_at: "1969-12-31T23:59:59.999Z" },
  "created_at: must not be before 1970",
);
test(
  "that was created in the future",
  rejects,
  { created_at: "2026-05-01T12:00:00.001Z" },
  "created_at: must not be in the future",
);
test(
  "with a negative fractional count",
  rejects,
  { fractional_count: -0.1 },
  "fractional_count: must be a number of at least 0",
);

test("a fractional count, even 0, requires fractional counting", (t) => {
  t.deepEqual(read({ fractional_count: 0 }, false), {
    problem: "fractional_count: fractional counting is not enabled for this organization",
  });
  t.deepEqual(read({}, false), { registration: plain });
});

test("everything that is wrong with a line is reported", (t) => {
  t.deepEqual(read({ kind: 1, count: "1", attribution: "x".repeat(501) }), {
    problem: `kind: must be tree or bottle; ${COUNT}; attribution: must be at most 500 characters`,
  });
});

const contentFrom = (text: string): string | null => {
  const line = parseImportLine(text, { now, fractionalCounting: true });
  return "problem" in line ? null : contentOf(line.registration);
};

test("equal lines have the same content, whatever the order of their fields", (t) => {
  const content = contentFrom(
    '{"kind":"tree","count":1,"created_at":"2025-06-01T12:00:00Z","metadata":{"a":1,"b":{"c":[1,{"d":2,"e":3}],"f":4}}}',
  );
  t.not(content, null);
  t.is(
    contentFrom(
      '{ "metadata": {"b":{"f":4,"c":[1,{"e":3,"d":2e0}]},"a":1.0}, "created_at":"2025-06-01T14:00:00.000+02:00", "attribution":"", "idempotency_key":"", "fractional_count":0, "count":1, "kind":"tree"}',
    ),
    content,
  );
  // The order of a list matters.
  t.not(
    contentFrom(
      '{"kind":"tree","count":1,"created_at":"2025-06-01T12:00:00Z","metadata":{"a":1,"b":{"c":[{"d":2,"e":3},1],"f":4}}}',
    ),
    content,
  );
});

test("every field is part of the content; with a key, only the key and the kind are", (t) => {
  const changes: readonly Partial<ImportedRegistration>[] = [
    {},
    { kind: "bottle" },
    { count: 2 },
    { createdAt: new Date("2025-06-01T12:00:00.001Z") },
    { fractionalCount: 0.5 },
    { attribution: "a" },
    { metadata: { a: null } },
    { metadata: { a: {} } },
    { metadata: { a: [] } },
    { metadata: { a: "1" } },
    { metadata: { a: 1 } },
    { idempotencyKey: "a" },
    { idempotencyKey: "b" },
    { idempotencyKey: "a", kind: "bottle" },
  ];
  const contents = changes.map((change) => contentOf({ ...plain, ...change }));
  t.is(new Set(contents).size, changes.length);
  for (const change of changes) {
    const keyed = { ...plain, ...change, idempotencyKey: "a", kind: "tree" } as const;
    t.is(contentOf(keyed), contentOf({ ...plain, idempotencyKey: "a" }));
  }
});
