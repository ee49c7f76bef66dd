import type { PlantingFactOf, ReportedSite } from "../fact.rules.ts";
import { chooseBySeed } from "../seededChoice.rules.ts";
import { SIMULATED_SITES } from "./sites.ts";
import type { SimulatedSite } from "./sites.ts";

const PHOTOS = 4;

const CREW_STYLES = ["community crew", "seasonal crew", "cooperative"];

type SimulatedOrder = { readonly publicId: string; readonly treeCount: number };

const siteOf = ({ publicId }: SimulatedOrder): SimulatedSite =>
  chooseBySeed(publicId).pick(SIMULATED_SITES);

const withoutSpecies = ({ species: _species, ...site }: SimulatedSite): ReportedSite => site;

const photosOf = (order: SimulatedOrder, purpose: string): readonly string[] =>
  Array.from(
    { length: PHOTOS },
    (_, index) => `/media/simulated/${order.publicId}-${purpose}-${index + 1}.svg`,
  );

/** The session's references, the same when it is planted and when it is verified. */
const sessionOf = ({ publicId }: SimulatedOrder) => ({
  planting_session_reference: `${publicId}/session`,
  field_update_reference: `${publicId}/field-update`,
});

export const simulateAllocated = (order: SimulatedOrder, at: Date): PlantingFactOf<"allocated"> => {
  const choice = chooseBySeed(`${order.publicId}/crew/0`);
  const members = choice.between(6, 18);
  return {
    stage: "allocated",
    occurred_at: at.toISOString(),
    allocations: [
      {
        reference: `${order.publicId}/allocation/1`,
        date_allocated: at.toISOString(),
        trees: order.treeCount,
        planting_site: withoutSpecies(siteOf(order)),
        crew: {
          // The crew is simulated, so its leader has a number and no name.
          leader: `Crew leader ${choice.between(1, 40)}`,
          style: choice.pick(CREW_STYLES),
          total_members: members,
          women_members: choice.between(Math.floor(members / 3), members),
        },
      },
    ],
  };
};

export const simulatePlanted = (order: SimulatedOrder, at: Date): PlantingFactOf<"planted"> => {
  const site = siteOf(order);
  const choice = chooseBySeed(`${order.publicId}/planted`);
  return {
    stage: "planted",
    occurred_at: at.toISOString(),
    ...sessionOf(order),
    media: photosOf(order, "planting").map((url, index) => ({
      reference: `${order.publicId}/media/${index + 1}`,
      type: "photo",
      url,
      thumbnail_url: url,
      latitude: choice.near(site.latitude, 0.004),
      longitude: choice.near(site.longitude, 0.004),
    })),
  };
};

export const simulateVerified = (
  order: SimulatedOrder,
  at: Date,
): PlantingFactOf<"planted_and_verified"> => {
  const site = siteOf(order);
  const choice = chooseBySeed(`${order.publicId}/verified`);
  const photos = photosOf(order, "verification");
  return {
    stage: "planted_and_verified",
    occurred_at: at.toISOString(),
    ...sessionOf(order),
    allocation_reference: `${order.publicId}/allocation/1`,
    planting_site: withoutSpecies(site),
    assessor_name: `Assessor ${choice.between(1, 20)}`,
    verifier: "Simulated verifier",
    // An order may already have the largest safe integer of trees.
    session_total_planted: Math.min(
      order.treeCount + choice.between(0, 400),
      Number.MAX_SAFE_INTEGER,
    ),
    species: [...site.species],
    image_url: photos[0] ?? site.main_image,
    latitude: choice.near(site.latitude, 0.004),
    longitude: choice.near(site.longitude, 0.004),
    photos: [...photos],
  };
};
