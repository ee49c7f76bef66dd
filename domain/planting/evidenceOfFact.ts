import type { PlantingFactOf } from "./fact.ts";
import type { AllocatedEvidence, PlantedEvidence, VerifiedEvidence } from "./treeEvidence.ts";

/*
 * What a reported fact shows once it is in force, on record and in a simulation alike. Partners name their own things;
 * evidence has our numbers for them.
 */

type Allocation = PlantingFactOf<"allocated">["allocations"][number];

export const evidenceOfAllocation = (
  { date_allocated, planting_site: site, crew }: Allocation,
  numbers: { readonly allocationId: number; readonly siteId: number },
): AllocatedEvidence["allocations"][number] => ({
  allocation_id: numbers.allocationId,
  date_allocated,
  planting_site: {
    id: numbers.siteId,
    name: site.name,
    subsite_name: site.subsite_name,
    organization_name: site.organization_name,
    latitude: site.latitude,
    longitude: site.longitude,
    main_image: site.main_image,
  },
  crew,
});

export const evidenceOfPlanted = (fact: PlantingFactOf<"planted">): PlantedEvidence => ({
  date_planted: fact.occurred_at,
  media: fact.media.map(({ reference: id, ...media }) => Object.assign({ id }, media)),
});

type Verified = PlantingFactOf<"planted_and_verified">;

/** The partner's name for the allocation that was verified. */
export const allocationReferenceOf = (fact: Verified): string =>
  fact.allocation_reference ?? fact.planting_session_reference;

export const evidenceOfVerified = (
  fact: Verified,
  numbers: {
    readonly allocationId: number;
    readonly fieldUpdateId: number;
    readonly plantingSessionId: number;
  },
): VerifiedEvidence => ({
  planting_site_name: fact.planting_site.name,
  subsite_name: fact.planting_site.subsite_name,
  organization_name: fact.planting_site.organization_name,
  assessor_name: fact.assessor_name,
  verifier: fact.verifier,
  date_verified: fact.occurred_at,
  session_total_planted: fact.session_total_planted,
  species: fact.species,
  image_url: fact.image_url,
  allocation_id: numbers.allocationId,
  field_update_id: numbers.fieldUpdateId,
  planting_session_id: numbers.plantingSessionId,
  latitude: String(fact.latitude),
  longitude: String(fact.longitude),
  photos: fact.photos,
});
