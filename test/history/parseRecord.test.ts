import test from "ava";
import { parseJsonLine } from "../../modules/history/parseLine.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import type {
  ImportedDonation,
  ImportedRegistration,
} from "../../modules/history/importedRecords.rules.ts";
import { importedTree } from "./importedTree.ts";
import { SESSION } from "./evidenceLines.ts";
import { parseEvidence } from "../../modules/history/parseEvidence.ts";

const now = new Date("2026-05-01T12:00:00.000Z");

const read = (
  fields: Readonly<Record<string, unknown>> | string,
  fractionalCounting = false,
  storeMode: Mode | null = null,
) =>
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
    { now, fractionalCounting, storeMode, kind: null, source: null },
  );

const plain: ImportedRegistration = {
  ...importedTree,
  imported_id: "t-1",
  created_at: "2025-06-01T12:00:00.000000Z",
};

const MOST = Number.MAX_SAFE_INTEGER;
const CREATED_AT = "created_at: must be a time with an offset, such as 2025-06-01T12:00:00Z";
const COUNT = "count: must be an integer of at least 1";
const REFUNDED = "refunded_count: must be at most count, and agree with refunded";

for (const [title, fields, expected] of [
  ["with only the required fields", {}, {}],
  ["that registers bottles", { kind: "bottle" }, { kind: "bottle" }],
  ["with the largest count", { count: MOST }, { count: MOST }],
  [
    "that was created now",
    { created_at: now.toISOString() },
    { created_at: now.toISOString().replace("Z", "000Z") },
  ],
  [
    "that was created in a microsecond",
    { created_at: "2025-06-01T12:00:00.123456Z" },
    { created_at: "2025-06-01T12:00:00.123456Z" },
  ],
  [
    "that was created in the first millisecond of 1970",
    { created_at: "1970-01-01T01:00:00.000+01:00" },
    { created_at: "1970-01-01T00:00:00.000000Z" },
  ],
  [
    "that was created on a leap day in another time zone",
    { created_at: "2024-02-29T23:30:00-02:00" },
    { created_at: "2024-03-01T01:30:00.000000Z" },
  ],
  ["with an empty key, which means none", { idempotency_key: "" }, {}],
  ["with a key of one space", { idempotency_key: " " }, { idempotency_key: " " }],
  [
    "with every optional field",
    { fractional_count: 0.5, attribution: "a", metadata: { b: [1] } },
    { fractional_count: 0.5, attribution: "a", metadata: { b: [1] } },
  ],
  ["with an id of 64 characters", { id: "é".repeat(64) }, { imported_id: "é".repeat(64) }],
  ["that is refunded in full", { count: 3, refunded: true }, { count: 3, refunded_count: 3 }],
  [
    "that is refunded in part",
    { count: 3, refunded: true, refunded_count: 2 },
    { count: 3, refunded_count: 2 },
  ],
  [
    "whose optional fields are null",
    { fractional_count: null, metadata: null, idempotency_key: null, refunded: null },
    {},
  ],
  [
    "with the fields of a store's record",
    { customer_name: "Ann", customer_email: "a@b.c", customer_id: 7, order_id: "#1", notes: "n" },
    { customer_name: "Ann", customer_email: "a@b.c", customer_id: "7", order_id: "#1", notes: "n" },
  ],
] as const) {
  test(`a line is accepted ${title}`, (t) => {
    t.deepEqual(read(fields), { record: { ...plain, ...expected } });
  });
}

for (const [title, fields, problem] of [
  ["that is not JSON", "{", "not valid JSON"],
  ["that is a list", "[]", "the line must be a JSON object"],
  ["that is null", "null", "the line must be a JSON object"],
  ["of an unknown kind", { kind: "x" }, "kind: must be one of tree, bottle, donation, evidence"],
  ["with a count of 0", { count: 0 }, COUNT],
  ["with a count over 2^53", { count: MOST + 1 }, `count: must be at most ${MOST}`],
  ["with an unknown field", { counts: 2 }, "counts: unknown field"],
  ["without a time", { created_at: undefined }, CREATED_AT],
  ["with a date instead of a time", { created_at: "2025-06-01" }, CREATED_AT],
  ["with a time without an offset", { created_at: "2025-06-01T12:00:00" }, CREATED_AT],
  ["with a date that does not exist", { created_at: "2025-02-29T12:00:00Z" }, CREATED_AT],
  [
    "created before 1970",
    { created_at: "1969-12-31T23:59:59.999Z" },
    "created_at: must not be before 1970",
  ],
  [
    "created in the future",
    { created_at: "2026-05-01T12:00:00.001Z" },
    "created_at: must not be in the future",
  ],
  [
    "with a price above the highest one of a store",
    { unit_price_cents: 100_000_000_000 },
    "unit_price_cents: must be an integer from 0 to 99999999999",
  ],
  [
    "with a negative fractional count",
    { fractional_count: -0.1 },
    "fractional_count: must be a number of at least 0",
  ],
  ["with an id of 65 characters", { id: "x".repeat(65) }, "id: must be at most 64 characters"],
  ["with an empty id", { id: "" }, "id: must not be empty"],
  [
    "with neither an id nor a key",
    { id: null, idempotency_key: "" },
    "id: required, or an idempotency_key, so that the import can be repeated",
  ],
  ["with more refunded units than registered ones", { refunded_count: 2 }, REFUNDED],
  ["with refunded units, but not refunded", { refunded: false, refunded_count: 1 }, REFUNDED],
  ["with a NUL", { attribution: "a\0b" }, /^attribution: must be well-formed/u],
  ["with metadata that are too big", { metadata: { a: "x".repeat(66_000) } }, /at most 65536/u],
  [
    "with several faults",
    { id: 1, count: "1", attribution: "x".repeat(1001) },
    `id: must be a string; attribution: must be at most 1000 characters; ${COUNT}`,
  ],
] as const) {
  test(`a line is rejected ${title}`, (t) => {
    const parsed = read(fields);
    const found = "problem" in parsed ? parsed.problem : "";
    if (typeof problem === "string") {
      t.is(found, problem);
    } else {
      t.regex(found, problem);
    }
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
  t.deepEqual(
    parseJsonLine(line, {
      now,
      fractionalCounting: false,
      storeMode: null,
      kind: "bottle",
      source: null,
    }),
    {
      record: { ...plain, kind: "bottle" },
    },
  );
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
  t.deepEqual(read(JSON.stringify(listed)), { record: donation });
  t.deepEqual(read(JSON.stringify({ ...listed, refunded: true })), {
    record: { ...donation, refunded: true },
  });
  t.deepEqual(read(JSON.stringify({ ...listed, nonprofit_id: "" })), {
    record: { ...donation, nonprofit_id: "530196605" },
  });
  t.deepEqual(read(JSON.stringify({ ...listed, nonprofit_id: "", ein: "" })), {
    problem: "ein or nonprofit_id is required",
  });
  t.deepEqual(read(JSON.stringify({ ...listed, charity_name: " " })), {
    problem: "charity_name: must not be empty",
  });
  t.deepEqual(read(JSON.stringify({ ...listed, amount: 5 })), { record: donation });
  t.deepEqual(read(JSON.stringify({ ...listed, amount: 500 })), {
    problem: "amount: must be amount_cents in US dollars",
  });
  t.deepEqual(read(JSON.stringify({ ...listed, count: 1, currency: "EUR" })), {
    problem: "currency: must be USD; count: unknown field",
  });
});

test("an attribution or metadata in a store's line is rejected, because stores have none", (t) => {
  const gift = { kind: "donation", amount_cents: 1, ein: "53-0196605", charity_name: "Red Cross" };
  for (const line of [{}, { ...gift, count: null }]) {
    for (const [field, value] of Object.entries({ attribution: "Ann", metadata: { a: "Ann" } })) {
      t.deepEqual(read({ ...line, [field]: value }, false, "test"), {
        problem: `${field}: stores' records have none; remove it from the line`,
      });
    }
    t.true("record" in read({ ...line, attribution: "", metadata: {} }, false, "test"));
  }
});

const NOW = new Date("2026-05-01T10:00:00.000Z");

/** A timeline with one milestone and its evidence. */
const milestone = (event: string, evidence: unknown, timestamp = "2024-05-01") => ({
  timeline: [{ event, status: "completed", timestamp, evidence }],
});

const EVENTS = "registered, funds_distributed, allocated, planted, planted_and_verified";

const ORDER = { provider_meta: { order_id: 1, public_id: "p" } };
const PHOTO = { type: "photo", url: "https://a.example/1.jpg", latitude: 0 };

for (const [title, fields, problem] of [
  ["without a timeline", { timeline: undefined }, "timeline: required"],
  ["whose milestone is a number", { timeline: [1] }, "timeline.0: must be a JSON object"],
  [
    "with an unknown milestone",
    { timeline: [{ event: "felled" }] },
    `timeline.0.event: must be one of ${EVENTS}`,
  ],
  [
    "with an unknown status of a milestone",
    { timeline: [{ event: "planted", status: "done" }] },
    "timeline.0.status: must be one of pending, completed",
  ],
  [
    "whose milestone is dated more than a day ahead, as when it is recorded",
    { ...ORDER, ...milestone("funds_distributed", {}, "2026-05-02T10:00:01Z") },
    "funds_distributed: occurred_at is in the future",
  ],
  ["with ids that are a list", { provider_meta: [] }, "provider_meta: must be a JSON object"],
  [
    "whose order has a fraction and a negative id",
    milestone("funds_distributed", { order_id: 1.5, tree_order_id: -1 }),
    "timeline.0.evidence.order_id: must be an integer; timeline.0.evidence.tree_order_id: must be at least 0",
  ],
  [
    "whose photo has no place",
    milestone("planted", {
      media: [{ ...PHOTO, id: true, type: 1, latitude: "north", longitude: [] }],
    }),
    [
      "timeline.0.evidence.media.0.latitude: must be a number",
      "timeline.0.evidence.media.0.longitude: must be a number",
      "timeline.0.evidence.media.0.id: must be a string or an integer",
    ].join("; "),
  ],
  [
    "whose photo is beside the Earth",
    { ...ORDER, ...milestone("planted", { media: [{ ...PHOTO, id: 1, longitude: 181 }] }) },
    "planted: media.0.longitude: must be at most 180",
  ],
  [
    "with a misspelt name in a site",
    {
      ...ORDER,
      ...milestone("allocated", {
        allocations: [
          {
            allocation_id: 1,
            date_allocated: "2024-05-01",
            planting_site: {
              id: 1,
              name: "Gazi Bay",
              organisation_name: "Gazi Growers",
              organization_name: "Gazi Growers",
              latitude: 0,
              longitude: 0,
            },
          },
        ],
      }),
    },
    "allocated: allocations.0.planting_site.organisation_name: unknown field",
  ],
  [
    "that is planted without allocations",
    { ...ORDER, ...milestone("allocated", { allocations: [] }) },
    "allocated: allocations: must not be empty",
  ],
] as const) {
  test(`a line of evidence is rejected ${title}`, (t) => {
    const line = { kind: "evidence", tree_id: "t-1", timeline: [], ...fields };
    t.deepEqual(parseEvidence(line, { source: "old.example", now: NOW }), { problem });
  });
}

/** Returns the reference of the site of a verified session, or the problem of its line. */
const referenceOfSite = (siteName: string, subsiteName: string): string => {
  const session = { ...SESSION, planting_site_name: siteName, subsite_name: subsiteName };
  const timeline = [
    ...milestone("funds_distributed", {}).timeline,
    ...milestone("planted_and_verified", session).timeline,
  ];
  const provider_meta = { order_id: 1, public_id: "p" };
  const line = { kind: "evidence", tree_id: "t-1", timeline, provider_meta };
  const parsed = parseEvidence(line, { source: "s".repeat(100), now: NOW });
  if ("problem" in parsed) {
    return parsed.problem;
  }
  const fact = parsed.evidence.facts.find(({ stage }) => stage === "planted_and_verified");
  return fact?.stage === "planted_and_verified" ? (fact.planting_site?.reference ?? "") : "";
};

test("sites of verified sessions are told apart by their names, however long these are", (t) => {
  const source = "s".repeat(100);
  const [name, subsite] = ["n".repeat(200), "é".repeat(199)];

  t.is(referenceOfSite("Gazi Bay", "Creek 3"), `${source}/Gazi Bay/Creek 3`);
  t.is(referenceOfSite("n".repeat(98), ""), `${source}/${"n".repeat(98)}/`);
  const long = referenceOfSite(name, `${subsite}1`);
  t.regex(long, /^s{100}\/[0-9a-f]{64}$/u);
  t.is(referenceOfSite(name, `${subsite}1`), long);
  t.not(referenceOfSite(name, `${subsite}2`), long);
});
