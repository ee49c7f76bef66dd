import test from "ava";
import { parseEvidence } from "../../modules/history/parseEvidence.ts";

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
  ["whose refund is a text", { refunded: "yes" }, "refunded: must be true or false"],
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
      "timeline.0.evidence.media.0.id: must be a string or an integer",
      "timeline.0.evidence.media.0.type: must be a string",
      "timeline.0.evidence.media.0.latitude: must be a number",
      "timeline.0.evidence.media.0.longitude: must be a number",
    ].join("; "),
  ],
  [
    "whose photo is beside the Earth",
    { ...ORDER, ...milestone("planted", { media: [{ ...PHOTO, id: 1, longitude: 181 }] }) },
    "planted: media.0.longitude: must be at most 180",
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
  const session = {
    partner: "North Coast",
    planting_site_name: siteName,
    subsite_name: subsiteName,
    organization_name: "Gazi Growers",
    assessor_name: "A. Njoroge",
    verifier: "Coast Audit",
    session_total_planted: 1200,
    species: ["Rhizophora mucronata"],
    image_url: "https://photos.example/v.jpg",
    allocation_id: 5,
    field_update_id: 6,
    planting_session_id: 7,
    latitude: "-4.424",
    longitude: "39.508",
  };
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
