import test from "ava";
import {
  contentOf,
  parseImportedRegistration,
} from "../../domain/registrations/importedRegistration.ts";
import type { ImportedRegistration } from "../../domain/registrations/importedRegistration.ts";

const now = new Date("2026-05-01T12:00:00.000Z");

const read = (fields: Readonly<Record<string, unknown>> | string, fractionalCounting = true) =>
  parseImportedRegistration(
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

const takes = test.macro({
  exec: (
    t,
    fields: Readonly<Record<string, unknown>>,
    expected: Partial<ImportedRegistration> = {},
  ) => {
    t.deepEqual(read(fields), { registration: { ...plain, ...expected } });
  },
  title: (title = "") => `a line is taken ${title}`,
});

const refuses = test.macro({
  exec: (t, fields: Readonly<Record<string, unknown>> | string, fault: string) => {
    t.deepEqual(read(fields), { fault });
  },
  title: (title = "") => `a line is refused ${title}`,
});

const MOST = Number.MAX_SAFE_INTEGER;
const INSTANT = "created_at: must be an instant with its offset, such as 2025-06-01T12:00:00Z";
const COUNT = `count: must be an integer from 1 to ${MOST}`;

test("that says only what it must", takes, {});
test("of bottles", takes, { kind: "bottle" }, { kind: "bottle" });
test("of as many as can be", takes, { count: MOST }, { count: MOST });
test("of this very millisecond", takes, { created_at: now.toISOString() }, { createdAt: now });
test(
  "of the first millisecond of 1970",
  takes,
  { created_at: "1970-01-01T01:00:00.000+01:00" },
  { createdAt: new Date(0) },
);
test(
  "of a leap day in another zone",
  takes,
  { created_at: "2024-02-29T23:30:00-02:00" },
  { createdAt: new Date("2024-03-01T01:30:00Z") },
);
test("with an empty key, which is none", takes, { idempotency_key: "" });
test("with a key", takes, { idempotency_key: " " }, { idempotencyKey: " " });
test(
  "with all that it may say",
  takes,
  { fractional_count: 0.5, attribution: "a", metadata: { b: [1] } },
  { fractionalCount: 0.5, attribution: "a", metadata: { b: [1] } },
);

test("that is no JSON", refuses, "{", "not valid JSON");
test("that is empty", refuses, "", "not valid JSON");
test("that is no object", refuses, "[]", "a line must be a JSON object");
test("that is null", refuses, "null", "a line must be a JSON object");
test("with another kind", refuses, { kind: "coral" }, "kind: must be tree or bottle");
test("of nothing", refuses, { count: 0 }, COUNT);
test("of a part", refuses, { count: 1.5 }, COUNT);
test("of one more than can be", refuses, { count: MOST + 1 }, COUNT);
test("with an unknown field", refuses, { counts: 2 }, "counts: unknown field");
test("of a day", refuses, { created_at: "2025-06-01" }, INSTANT);
test("of an instant without an offset", refuses, { created_at: "2025-06-01T12:00:00" }, INSTANT);
test("of a day that is none", refuses, { created_at: "2025-02-29T12:00:00Z" }, INSTANT);
test(
  "of the last millisecond before 1970",
  refuses,
  { created_at: "1969-12-31T23:59:59.999Z" },
  "created_at: must not be before 1970",
);
test(
  "of the next millisecond",
  refuses,
  { created_at: "2026-05-01T12:00:00.001Z" },
  "created_at: must not be in the future",
);
test(
  "of less than nothing",
  refuses,
  { fractional_count: -0.1 },
  "fractional_count: must be a number of at least 0",
);

test("fractions are for who counts them, even a fraction of nothing", (t) => {
  t.deepEqual(read({ fractional_count: 0 }, false), {
    fault: "fractional_count: fractional counting is not enabled for this organization",
  });
  t.deepEqual(read({}, false), { registration: plain });
});

test("everything that is wrong with a line is told", (t) => {
  t.deepEqual(read({ kind: 1, count: "1", attribution: "x".repeat(501) }), {
    fault: `kind: must be tree or bottle; ${COUNT}; attribution: must be at most 500 characters`,
  });
});

const contentFrom = (text: string): string | null => {
  const line = parseImportedRegistration(text, { now, fractionalCounting: true });
  return "fault" in line ? null : contentOf(line.registration);
};

test("lines that say the same have one content, in whatever order their names stand", (t) => {
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
  // What stands in a list is in its order.
  t.not(
    contentFrom(
      '{"kind":"tree","count":1,"created_at":"2025-06-01T12:00:00Z","metadata":{"a":1,"b":{"c":[{"d":2,"e":3},1],"f":4}}}',
    ),
    content,
  );
});

test("whatever differs makes another content; under a key only the key and the kind do", (t) => {
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
