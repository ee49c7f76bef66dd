import type { PlantingFactOf } from "./fact.rules.ts";

/*
 * The proof that an accepted fact of a stage adds to a timeline. Partners identify their records by their own names;
 * evidence shows our reference ids. Links may be paths on this service. Times are ISO 8601 in UTC.
 */

export type AllocatedEvidence = {
  readonly allocations: readonly {
    readonly allocationId: number;
    readonly allocatedAt: string;
    readonly site: {
      readonly id: number;
      readonly name: string;
      readonly subsiteName: string;
      readonly organizationName: string;
      readonly latitude: number;
      readonly longitude: number;
      readonly imageUrl: string;
    };
    readonly crew: {
      readonly leader: string;
      readonly style: string;
      readonly totalMembers: number;
      readonly womenMembers: number;
    };
  }[];
};

/** The ids of a planting session and of the partner's report of it. */
export type SessionIds = {
  readonly fieldUpdateId: number;
  readonly plantingSessionId: number;
};

export type PlantedEvidence = SessionIds & {
  readonly plantedAt: string;
  readonly media: readonly {
    readonly id: string;
    readonly type: string;
    readonly url: string;
    readonly thumbnailUrl: string;
    readonly latitude: number;
    readonly longitude: number;
  }[];
};

export type VerifiedEvidence = SessionIds & {
  readonly siteName: string;
  readonly subsiteName: string;
  readonly organizationName: string;
  readonly assessorName: string;
  readonly verifier: string;
  readonly verifiedAt: string;
  readonly sessionTotalPlanted: number;
  readonly species: readonly string[];
  readonly imageUrl: string;
  readonly allocationId: number;
  readonly latitude: number;
  readonly longitude: number;
  readonly photos: readonly string[];
};

export type StageEvidence = AllocatedEvidence | PlantedEvidence | VerifiedEvidence;

export const allocationEvidence = (
  {
    date_allocated: allocatedAt,
    planting_site: site,
    crew,
  }: PlantingFactOf<"allocated">["allocations"][number],
  ids: { readonly allocationId: number; readonly siteId: number },
): AllocatedEvidence["allocations"][number] => ({
  allocationId: ids.allocationId,
  allocatedAt,
  site: {
    id: ids.siteId,
    name: site.name,
    subsiteName: site.subsite_name,
    organizationName: site.organization_name,
    latitude: site.latitude,
    longitude: site.longitude,
    imageUrl: site.main_image,
  },
  crew: {
    leader: crew.leader,
    style: crew.style,
    totalMembers: crew.total_members,
    womenMembers: crew.women_members,
  },
});

export const plantedEvidence = (
  fact: PlantingFactOf<"planted">,
  ids: SessionIds,
): PlantedEvidence => ({
  fieldUpdateId: ids.fieldUpdateId,
  plantingSessionId: ids.plantingSessionId,
  plantedAt: fact.occurred_at,
  media: fact.media.map((medium) => ({
    id: medium.reference,
    type: medium.type,
    url: medium.url,
    thumbnailUrl: medium.thumbnail_url,
    latitude: medium.latitude,
    longitude: medium.longitude,
  })),
});

/** Returns the partner's names for the session of planted trees, and for its report; by default those of the order. */
export const sessionReferencesOf = (
  fact: PlantingFactOf<"planted">,
  orderPublicId: string,
): { readonly plantingSession: string; readonly fieldUpdate: string } => ({
  plantingSession: fact.planting_session_reference ?? `${orderPublicId}/planting-session`,
  fieldUpdate: fact.field_update_reference ?? `${orderPublicId}/field-update`,
});

/** Returns the partner's name for the verified allocation: the session's if the partner reports no allocations. */
export const allocationReferenceOf = (fact: PlantingFactOf<"planted_and_verified">): string =>
  fact.allocation_reference ?? fact.planting_session_reference;

export const verifiedEvidence = (
  fact: PlantingFactOf<"planted_and_verified">,
  ids: SessionIds & { readonly allocationId: number },
): VerifiedEvidence => ({
  siteName: fact.planting_site.name,
  subsiteName: fact.planting_site.subsite_name,
  organizationName: fact.planting_site.organization_name,
  assessorName: fact.assessor_name,
  verifier: fact.verifier,
  verifiedAt: fact.occurred_at,
  sessionTotalPlanted: fact.session_total_planted,
  species: fact.species,
  imageUrl: fact.image_url,
  allocationId: ids.allocationId,
  fieldUpdateId: ids.fieldUpdateId,
  plantingSessionId: ids.plantingSessionId,
  latitude: fact.latitude,
  longitude: fact.longitude,
  photos: fact.photos,
});
