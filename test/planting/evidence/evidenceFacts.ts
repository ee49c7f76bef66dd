import type { AcceptedFacts, PlantingFactOf } from "../../../modules/planting/fact.rules.ts";
import { PLANTING_STAGES } from "../../../modules/planting/order.rules.ts";
import type { PlantingStage } from "../../../modules/planting/order.rules.ts";
import type { OrderedTrees, TreeEvidence } from "../../../modules/planting/timeline.rules.ts";

export const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

export const order: OrderedTrees = {
  orderId: 7,
  orderPublicId: "PO-7",
  treeOrderId: 21,
  treeOrderPublicId: null,
  treeCount: 4,
  buyerName: "Forest & Söhne",
};

/** The ids of the references that the facts below name. */
const IDS: Readonly<Record<string, number>> = {
  "allocation A-1": 11,
  "allocation A-2": 12,
  "allocation A-0": 0,
  "allocation PS-2": 90,
  "field_update FU-1": 81,
  "field_update FU-2": 91,
  "field_update PO-7/field-update": 71,
  "planting_session PS-1": 82,
  "planting_session PS-2": 92,
  "planting_session PO-7/planting-session": 72,
  "planting_site bay": 3,
};

const SITE = {
  reference: "bay",
  name: "Bay",
  subsite_name: "",
  organization_name: "Coast",
  region: "Kwale",
  country: "Kenya",
  forest_type: "mangrove",
  latitude: -1.5,
  longitude: 40.25,
  main_image: "",
} as const;

export const allocation = (
  reference: string,
  mainImage: string,
): PlantingFactOf<"allocated">["allocations"][number] => ({
  reference,
  date_allocated: "2026-05-02T08:00:00.000Z",
  trees: 1,
  planting_site: { ...SITE, main_image: mainImage },
  crew: { leader: "", style: "", total_members: 0, women_members: 0 },
});

const medium = (url: string): PlantingFactOf<"planted">["media"][number] => ({
  reference: "photo-1",
  type: "photo",
  url,
  thumbnail_url: `${url}?small`,
  latitude: -1.5,
  longitude: 40.25,
});

export const FACTS: { readonly [Stage in PlantingStage]: PlantingFactOf<Stage> } = {
  funds_distributed: {
    stage: "funds_distributed",
    occurred_at: "2026-05-01T23:59:59.999Z",
    partner_reference: "NCP-1",
  },
  allocated: {
    stage: "allocated",
    occurred_at: "2026-05-02T00:00:00.000Z",
    allocations: [
      allocation("A-1", "/sites/bay.svg"),
      allocation("A-2", "https://partner.example/x"),
    ],
  },
  planted: {
    stage: "planted",
    occurred_at: "2026-05-03T00:00:00.000Z",
    planting_session_reference: "PS-1",
    field_update_reference: "FU-1",
    media: [medium("/photos/1.svg"), medium("https://partner.example/1.jpg")],
  },
  planted_and_verified: {
    stage: "planted_and_verified",
    occurred_at: "2026-05-04T12:00:00.000Z",
    planting_session_reference: "PS-2",
    field_update_reference: "FU-2",
    planting_site: SITE,
    assessor_name: "Ann",
    verifier: "Coast Survey",
    session_total_planted: 400,
    species: ["Rhizophora mucronata"],
    image_url: "/evidence/image.svg",
    latitude: -1.5,
    longitude: 40.25,
    photos: ["/evidence/1.svg", "https://partner.example/2.jpg"],
  },
};

export const reach = (...stages: readonly PlantingStage[]): AcceptedFacts =>
  Object.fromEntries(stages.map((stage) => [stage, FACTS[stage]]));

/** Facts of which a test gives those that it is about. */
export type GivenFacts = Partial<Omit<TreeEvidence, "registration">> & {
  readonly refundedCount?: number;
  readonly isOrderedElsewhere?: boolean;
};

export const factsOf = ({
  refundedCount = 0,
  isOrderedElsewhere = false,
  ...given
}: GivenFacts): TreeEvidence => ({
  registration: {
    id: ID,
    createdAt: new Date("2026-04-30T22:15:00.123Z"),
    position: "2026-04-30T22:15:00.123456Z",
    count: 5,
    fractionalCount: 5.5,
    attribution: "spring",
    refundedCount,
    isOrderedElsewhere,
  },
  partnerName: "North Coast Planting",
  isSimulated: false,
  importedFrom: null,
  shape: "allocations",
  order: null,
  facts: {},
  region: null,
  idOf: (kind, reference) => IDS[`${kind} ${reference}`] ?? -1,
  ...given,
});

/** All combinations of stages, shapes, refunds and orders. */
export const allFacts = (): readonly GivenFacts[] => {
  const given: GivenFacts[] = [];
  for (let subset = 0; subset < 2 ** PLANTING_STAGES.length; subset += 1) {
    const facts = reach(...PLANTING_STAGES.filter((_, index) => (subset & (1 << index)) !== 0));
    for (const shape of ["allocations", "sessions"] as const) {
      for (const refundedCount of [0, 2, 5]) {
        given.push({ shape, refundedCount, facts, order }, { shape, refundedCount, facts });
      }
    }
  }
  return given;
};
