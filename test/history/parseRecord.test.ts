import test from "ava";
import { parseJsonLine } from "../../modules/history/parseLine.ts";
import { importedTree } from "./importLine.ts";
import type { Fields } from "./importLine.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import type {
  ImportedDonation,
  ImportedRegistration,
} from "../../modules/history/importedRecords.rules.ts";

const now = new Date("2026-05-01T12:00:00.000Z");

const OPTIONS = { now, fractionalCounting: false, storeMode: null, kind: null, source: null };

const read = (fields: Fields | string, fractionalCounting = false, storeMode: Mode | null = null) =>
  parseJsonLine(
    typeof fields === "string"
      ? fields
      : JSON.stringify({
          kind: "tree",
          id: "t-1",
          count: 1,
          created_at: "2025-06-01T12:00:00Z",
          ...fields,
        }),
    { ...OPTIONS, fractionalCounting, storeMode },
  );

const plain: ImportedRegistration = {
  ...importedTree,
  imported_id: "t-1",
  created_at: "2025-06-01T12:00:00.000000Z",
};

const OPTIONAL = { fractional_count: 0.5, attribution: "a", metadata: { b: [1] } };
const STORE_FIELDS = {
  customer_name: "Ann",
  customer_email: "a@b.c",
  customer_id: "7",
  order_id: "#1",
  notes: "n",
};

const MOST = Number.MAX_SAFE_INTEGER;
const CREATED_AT = "created_at: must be a time with an offset, such as 2025-06-01T12:00:00Z";
const COUNT = "count: must be an integer of at least 1";
const REFUNDED = "refunded_count: must be at most count, and agree with refunded";

/** Fields of a line, and those in which its record differs. */
const ACCEPTED: readonly (readonly [fields: Fields, expected: Partial<ImportedRegistration>])[] = [
  [{}, {}],
  [{ kind: "bottle" }, { kind: "bottle" }],
  [{ count: MOST }, { count: MOST }],
  [{ created_at: now.toISOString() }, { created_at: "2026-05-01T12:00:00.000000Z" }],
  [{ created_at: "2025-06-01T12:00:00.123456Z" }, { created_at: "2025-06-01T12:00:00.123456Z" }],
  [{ created_at: "1970-01-01T01:00:00+01:00" }, { created_at: "1970-01-01T00:00:00.000000Z" }],
  [{ created_at: "2024-02-29T23:30:00-02:00" }, { created_at: "2024-03-01T01:30:00.000000Z" }],
  // An empty key means none.
  [{ idempotency_key: "" }, {}],
  [{ idempotency_key: " " }, { idempotency_key: " " }],
  [OPTIONAL, OPTIONAL],
  [{ id: "é".repeat(64) }, { imported_id: "é".repeat(64) }],
  [
    { count: 3, refunded: true },
    { count: 3, refunded_count: 3 },
  ],
  [
    { count: 3, refunded: true, refunded_count: 2 },
    { count: 3, refunded_count: 2 },
  ],
  [{ fractional_count: null, metadata: null, idempotency_key: null, refunded: null }, {}],
];
for (const [fields, expected] of ACCEPTED) {
  test(`a line is accepted with ${JSON.stringify(fields)}`, (t) => {
    t.deepEqual(read(fields), { record: { ...plain, ...expected } });
  });
}

const PRICE = "unit_price_cents: must be an integer from 0 to 99999999999";
const FRACTION = "fractional_count: must be a number of at least 0";
const UNIDENTIFIED = "id: required, or an idempotency_key, so that the import can be repeated";

const REJECTED: readonly (readonly [fields: Fields | string, problem: string | RegExp])[] = [
  ["{", "not valid JSON"],
  ["[]", "the line must be a JSON object"],
  ["null", "the line must be a JSON object"],
  [{ kind: "x" }, "kind: must be one of tree, bottle, donation, evidence"],
  [{ kind: null }, "kind: must be one of tree, bottle, donation, evidence"],
  [{ count: 0 }, COUNT],
  [{ count: MOST + 1 }, `count: must be at most ${MOST}`],
  [{ counts: 2 }, "counts: unknown field"],
  [{ created_at: null }, CREATED_AT],
  [{ created_at: "2025-06-01" }, CREATED_AT],
  [{ created_at: "2025-06-01T12:00:00" }, CREATED_AT],
  [{ created_at: "2025-02-29T12:00:00Z" }, CREATED_AT],
  [{ created_at: "1969-12-31T23:59:59.999Z" }, "created_at: must not be before 1970"],
  [{ created_at: "2026-05-01T12:00:00.001Z" }, "created_at: must not be in the future"],
  [{ unit_price_cents: 100_000_000_000 }, PRICE],
  [{ fractional_count: -0.1 }, FRACTION],
  [{ id: "x".repeat(65) }, "id: must be at most 64 characters"],
  [{ id: "" }, "id: must not be empty"],
  [{ id: null, idempotency_key: "" }, UNIDENTIFIED],
  [{ refunded_count: 2 }, REFUNDED],
  [{ refunded: false, refunded_count: 1 }, REFUNDED],
  [{ attribution: "a\0b" }, /^attribution: must be well-formed/u],
  [{ metadata: { a: "x".repeat(66_000) } }, /at most 65536/u],
  [{ id: 1, count: "1" }, `id: must be a string; ${COUNT}`],
];
for (const [fields, problem] of REJECTED) {
  test(`a line is rejected with ${JSON.stringify(fields).slice(0, 80)}`, (t) => {
    const parsed = read(fields);
    const found = "problem" in parsed ? parsed.problem : "";
    t.true(typeof problem === "string" ? found === problem : problem.test(found), found);
  });
}

test("without a fractional count, an organization with fractional counting counts whole units", (t) => {
  t.deepEqual(read({ count: 4 }, true), { record: { ...plain, count: 4, fractional_count: 4 } });
  t.deepEqual(read({ count: 4, fractional_count: 3.5 }, true), {
    record: { ...plain, count: 4, fractional_count: 3.5 },
  });
});

test("a line that names no kind has the kind that the operator gives", (t) => {
  const line = JSON.stringify({ id: "t-1", count: 1, created_at: "2025-06-01T12:00:00Z" });
  t.deepEqual(parseJsonLine(line, { ...OPTIONS, kind: "bottle" }), {
    record: { ...plain, kind: "bottle" },
  });
});

const donation: ImportedDonation = {
  kind: "donation",
  imported_id: "d-1",
  amount_cents: 500,
  ein: "530196605",
  nonprofit_id: "n-1",
  charity_name: "American Red Cross",
  created_at: "2025-06-01T12:00:00.000000Z",
  refunded: false,
  idempotency_key: null,
  attribution: "",
  metadata: {},
  customer_name: null,
  customer_email: null,
  customer_id: null,
  order_id: null,
};

/** Changes of a donation of the contract's list, and of its record, or what is wrong with it. */
const DONATIONS: readonly (readonly [
  changes: Fields,
  expected: Partial<ImportedDonation> | string,
])[] = [
  [{}, {}],
  [{ refunded: true }, { refunded: true }],
  [{ nonprofit_id: "" }, { nonprofit_id: "530196605" }],
  [{ nonprofit_id: "", ein: "" }, "ein or nonprofit_id is required"],
  [{ charity_name: " " }, "charity_name: must not be empty"],
  [{ amount: 5 }, {}],
  [{ amount: 500 }, "amount: must be amount_cents in US dollars"],
  [{ count: 1, currency: "EUR" }, "currency: must be USD; count: unknown field"],
];

test("a donation of the contract's list is accepted", (t) => {
  const listed = {
    kind: "donation",
    id: "d-1",
    amount_cents: 500,
    currency: "USD",
    ein: "53-0196605",
    nonprofit_id: "n-1",
    charity_name: "American Red Cross",
    created_at: "2025-06-01T12:00:00Z",
    attribution: "",
    metadata: {},
    refunded: false,
  };
  for (const [changes, expected] of DONATIONS) {
    t.deepEqual(
      read(JSON.stringify({ ...listed, ...changes })),
      typeof expected === "string"
        ? { problem: expected }
        : { record: { ...donation, ...expected } },
    );
  }
});

test("fields that only the other type of account has are rejected, unless they are empty", (t) => {
  const gift = { kind: "donation", amount_cents: 1, ein: "53-0196605", charity_name: "Red Cross" };
  const { notes: _notes, ...customer } = STORE_FIELDS;
  const cases = [
    ["stores", "test", [{}, { ...gift, count: null }], { attribution: "Ann", metadata: { a: 1 } }],
    ["organizations", null, [{}, { ...gift, count: null }], customer],
    ["organizations", null, [{}], { notes: "n" }],
  ] as const;
  for (const [owners, storeMode, lines, foreign] of cases) {
    for (const line of lines) {
      for (const [field, value] of Object.entries(foreign)) {
        t.deepEqual(read({ ...line, [field]: value }, false, storeMode), {
          problem: `${field}: ${owners}' records have none; remove it from the line`,
        });
      }
      const empty = { attribution: "", metadata: {}, customer_name: "", customer_id: null };
      t.true("record" in read({ ...line, ...empty }, false, storeMode));
    }
  }
  t.like(read({ ...STORE_FIELDS, customer_id: 7 }, false, "test"), { record: STORE_FIELDS });
});

/** A timeline with one milestone and its evidence. */
const milestone = (event: string, evidence: unknown, timestamp = "2024-05-01") => ({
  timeline: [{ event, status: "completed", timestamp, evidence }],
});

const EVENTS = "registered, funds_distributed, allocated, planted, planted_and_verified";

const ORDER = { provider_meta: { order_id: 1, public_id: "p" } };
const PHOTO = { type: "photo", url: "https://a.example/1.jpg", latitude: 0 };

const SITE = { id: 1, name: "Gazi Bay", organization_name: "g", latitude: 0, longitude: 0 };
const allocate = (planting_site: Fields) => ({
  ...ORDER,
  ...milestone("allocated", {
    allocations: [{ allocation_id: 1, date_allocated: "2024-05-01", planting_site }],
  }),
});
const MEDIUM = "timeline.0.evidence.media.0";

const REJECTED_EVIDENCE: readonly (readonly [fields: Fields, problem: string])[] = [
  [{ timeline: undefined }, "timeline: required"],
  [{ timeline: [1] }, "timeline.0: must be a JSON object"],
  [{ timeline: [{ event: "felled" }] }, `timeline.0.event: must be one of ${EVENTS}`],
  [
    { timeline: [{ event: "planted", status: "done" }] },
    "timeline.0.status: must be one of pending, completed",
  ],
  // Dated more than a day ahead, as when it is recorded.
  [
    { ...ORDER, ...milestone("funds_distributed", {}, "2026-05-02T12:00:01Z") },
    "funds_distributed: occurred_at is in the future",
  ],
  [{ provider_meta: [] }, "provider_meta: must be a JSON object"],
  [
    milestone("funds_distributed", { order_id: 1.5, tree_order_id: -1 }),
    "timeline.0.evidence.order_id: must be an integer; timeline.0.evidence.tree_order_id: must be at least 0",
  ],
  [
    milestone("planted", { media: [{ ...PHOTO, id: true, latitude: "north", longitude: [] }] }),
    `${MEDIUM}.latitude: must be a number; ${MEDIUM}.longitude: must be a number; ${MEDIUM}.id: must be a string or an integer`,
  ],
  [
    { ...ORDER, ...milestone("planted", { media: [{ ...PHOTO, id: 1, longitude: 181 }] }) },
    "planted: media.0.longitude: must be at most 180",
  ],
  [
    allocate({ ...SITE, organisation_name: "g" }),
    "allocated: allocations.0.planting_site.organisation_name: unknown field",
  ],
  [
    { ...ORDER, ...milestone("allocated", { allocations: [] }) },
    "allocated: allocations: must not be empty",
  ],
];
for (const [fields, problem] of REJECTED_EVIDENCE) {
  test(`a line of evidence is rejected because of ${problem}`, (t) => {
    const line = JSON.stringify({ kind: "evidence", tree_id: "t-1", timeline: [], ...fields });
    t.deepEqual(parseJsonLine(line, { ...OPTIONS, source: "old.example" }), { problem });
  });
}
