import type {
  AllocatedEvidence,
  PlantedEvidence,
  VerifiedEvidence,
} from "../../../modules/planting/evidence.rules.ts";
import { NOTHING_REACHED } from "../../../modules/planting/timeline.rules.ts";
import type {
  EvidenceFacts,
  OrderedTrees,
  ReachedStages,
} from "../../../modules/planting/timeline.rules.ts";

export const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

export const order: OrderedTrees = {
  orderId: 7,
  orderPublicId: "PO-7",
  treeOrderId: 21,
  treeOrderPublicId: null,
  treeCount: 4,
  buyerName: "Forest & Söhne",
};

export const allocation = (
  id: number,
  imageUrl: string,
): AllocatedEvidence["allocations"][number] => ({
  allocationId: id,
  allocatedAt: "2026-05-02T08:00:00.000Z",
  site: {
    id: 3,
    name: "Bay",
    subsiteName: "",
    organizationName: "Coast",
    latitude: -1.5,
    longitude: 40.25,
    imageUrl,
  },
  crew: { leader: "", style: "", totalMembers: 0, womenMembers: 0 },
});

const medium = (url: string): PlantedEvidence["media"][number] => ({
  id: "photo-1",
  type: "photo",
  url,
  thumbnailUrl: `${url}?small`,
  latitude: -1.5,
  longitude: 40.25,
});

const verified: VerifiedEvidence = {
  siteName: "Bay",
  subsiteName: "",
  organizationName: "Coast",
  assessorName: "Ann",
  verifier: "Coast Survey",
  verifiedAt: "2026-05-04T12:00:00.000Z",
  sessionTotalPlanted: 400,
  species: ["Rhizophora mucronata"],
  imageUrl: "/evidence/image.svg",
  allocationId: 90,
  fieldUpdateId: 91,
  plantingSessionId: 92,
  latitude: -1.5,
  longitude: 40.25,
  photos: ["/evidence/1.svg", "https://partner.example/2.jpg"],
};

export const REACHED = {
  fundsDistributed: { occurredAt: new Date("2026-05-01T23:59:59.999Z"), evidence: null },
  allocated: {
    occurredAt: new Date("2026-05-02T00:00:00.000Z"),
    evidence: {
      allocations: [allocation(11, "/sites/bay.svg"), allocation(12, "https://partner.example/x")],
    },
  },
  planted: {
    occurredAt: new Date("2026-05-03T00:00:00.000Z"),
    evidence: {
      plantedAt: "2026-05-03T00:00:00.000Z",
      fieldUpdateId: 81,
      plantingSessionId: 82,
      media: [medium("/photos/1.svg"), medium("https://partner.example/1.jpg")],
    },
  },
  verified: { occurredAt: new Date("2026-05-04T00:00:00.000Z"), evidence: verified },
} satisfies ReachedStages;

export const reach = (...stages: readonly (keyof ReachedStages)[]): ReachedStages => ({
  ...NOTHING_REACHED,
  ...Object.fromEntries(stages.map((stage) => [stage, REACHED[stage]])),
});

/** Facts of which a test gives those that it is about. */
export type GivenFacts = Partial<Omit<EvidenceFacts, "registration">> & {
  readonly refundedCount?: number;
  readonly isOrderedElsewhere?: boolean;
};

export const factsOf = ({
  refundedCount = 0,
  isOrderedElsewhere = false,
  ...given
}: GivenFacts): EvidenceFacts => ({
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
  reached: NOTHING_REACHED,
  region: null,
  ...given,
});

/** All combinations of stages, shapes, refunds and orders. */
export const allFacts = (): readonly GivenFacts[] => {
  const stages = ["fundsDistributed", "allocated", "planted", "verified"] as const;
  const facts: GivenFacts[] = [];
  for (let subset = 0; subset < 2 ** stages.length; subset += 1) {
    const reached = reach(...stages.filter((_, index) => (subset & (1 << index)) !== 0));
    for (const shape of ["allocations", "sessions"] as const) {
      for (const refundedCount of [0, 2, 5]) {
        facts.push({ shape, refundedCount, reached, order }, { shape, refundedCount, reached });
      }
    }
  }
  return facts;
};
