import { lineOf } from "./importLine.ts";
import type { Fields } from "./importLine.ts";

// Lines of evidence: what another server shows of trees.

const milestone = (step: number, event: string, day: number, evidence: Fields): Fields => ({
  step,
  event,
  title: event,
  status: "completed",
  date: `2024-05-0${day}`,
  timestamp: `2024-05-0${day}T08:00:00.000Z`,
  description: "d",
  evidence,
});

export const registered = (id: string): Fields =>
  milestone(1, "registered", 1, {
    tree_id: id,
    record_id: id,
    registered_at: "2024-05-01T08:00:00.000Z",
    count: 4,
    fractional_count: 0,
    attribution: "",
  });

const distributed = (id: string, orderId = 1001): Fields =>
  milestone(2, "funds_distributed", 2, {
    partner: "North Coast",
    order_id: orderId,
    order_public_id: `ORD-${orderId}`,
    tree_order_id: 7000 + id.length,
    tree_order_public_id: `TO-${id}`,
    tree_amount: 4,
    buyer_name: "Green Shop",
  });

const allocated = (allocationId: number): Fields =>
  milestone(3, "allocated", 3, {
    partner: "North Coast",
    allocations: [
      {
        allocation_id: allocationId,
        date_allocated: "2024-05-03T08:00:00.000Z",
        planting_site: {
          id: 12,
          name: "Gazi Bay",
          subsite_name: "Creek 3",
          organization_name: "Gazi Growers",
          latitude: -4.424,
          longitude: 39.508,
          main_image: "https://photos.example/gazi.jpg",
        },
        crew: { leader: "Crew 3", style: "cooperative", total_members: 12, women_members: 7 },
      },
    ],
  });

export const planted: Fields = milestone(4, "planted", 4, {
  partner: "North Coast",
  date_planted: "2024-05-04T08:00:00.000Z",
  media: [
    {
      id: "M-1",
      type: "photo",
      url: "https://photos.example/1.jpg",
      thumbnail_url: "https://photos.example/1-small.jpg",
      latitude: -4.42,
      longitude: 39.5,
    },
  ],
});

export const pending = (step: number, event: string): Fields => ({
  step,
  event,
  title: "Later",
  status: "pending",
  description: "d",
});

export const record = (id: string, status: string, meta: Fields, timeline: readonly Fields[]) => ({
  kind: "evidence",
  tree_id: id,
  record_id: id,
  impact_type: "trees",
  impact_provider: "North Coast",
  status,
  provider_meta: { order_id: 1001, public_id: "ORD-1001", ...meta },
  timeline,
  country: "Kenya",
  region: "Kwale",
});

export const allocatedRecord = (id: string, allocationId: number) =>
  record(id, "allocated", { allocation_id: allocationId }, [
    registered(id),
    distributed(id),
    allocated(allocationId),
    pending(4, "planted"),
  ]);

export const plantedRecord = (id: string, allocationId: number) =>
  record(
    id,
    "planted",
    { allocation_id: allocationId, field_update_id: 88, planting_session_id: 99 },
    [registered(id), distributed(id), allocated(allocationId), planted],
  );

/** The evidence of trees that were verified in a session. */
const SESSION = {
  partner: "North Coast",
  planting_site_name: "Gazi Bay",
  subsite_name: "Creek 3",
  organization_name: "Gazi Growers",
  assessor_name: "A. Njoroge",
  verifier: "Coast Audit",
  date_verified: "2024-05-05T08:00:00.000Z",
  session_total_planted: 1200,
  species: ["Rhizophora mucronata"],
  image_url: "https://photos.example/v.jpg",
  allocation_id: 5,
  field_update_id: 6,
  planting_session_id: 7,
  latitude: "-4.424",
  longitude: "39.508",
  photos: ["https://photos.example/v1.jpg"],
};

export const VERIFIED = record(
  "v",
  "planted_and_verified",
  { allocation_id: 5, field_update_id: 6, planting_session_id: 7 },
  [registered("v"), distributed("v"), milestone(3, "planted_and_verified", 5, SESSION)],
);

export const tree = (id: string): string =>
  lineOf({ id, count: 4, created_at: "2024-05-01T08:00:00Z" });

/** Returns the line of a tree whose order another system has placed, and that of its evidence. */
export const orderedTree = (id: string, orderId: number) => [
  tree(id),
  record(id, "funds_distributed", { order_id: orderId, public_id: `ORD-${orderId}` }, [
    registered(id),
    distributed(id, orderId),
    pending(3, "allocated"),
    pending(4, "planted"),
  ]),
];
