import type { CommonQueryMethods } from "slonik";
import { findCachedResponse, SUMMARY_KEY } from "../../db/planting/cachedResponses.ts";
import type { CachedResponse } from "../../db/planting/cachedResponses.ts";
import type { PlantedRegion } from "../../db/planting/sites.ts";
import { listRegions } from "../../db/planting/sites.ts";
import { sumPlantedByFactor } from "../../db/planting/tallies.ts";
import { sumAllAccounts } from "../../db/registrations/totals.ts";
import { projectImpact } from "../../domain/planting/impactFactors.ts";
import type { ProjectedImpact } from "../../domain/planting/impactFactors.ts";
import type { EvidenceDependencies, EvidenceRenderer } from "./cacheEvidence.ts";
import { cacheEvidence } from "./cacheEvidence.ts";

/** The latest ones of each site; a region may have several sites. */
const MEDIA_PER_SITE = 6;

/** What all accounts have registered and planted with production keys. */
export type EvidenceSummary = {
  readonly registeredTrees: number;
  readonly plantedTrees: number;
  readonly projected: ProjectedImpact;
  readonly regions: readonly PlantedRegion[];
};

const summarize = async (db: CommonQueryMethods): Promise<EvidenceSummary> => {
  const planted = await sumPlantedByFactor(db);
  return {
    registeredTrees: await sumAllAccounts(db, "tree"),
    plantedTrees: Math.min(
      planted.reduce((sum, { trees }) => sum + trees, 0),
      Number.MAX_SAFE_INTEGER,
    ),
    projected: projectImpact(planted),
    regions: await listRegions(db, MEDIA_PER_SITE),
  };
};

/** Returns the rendered summary: the same text from every process for 30 days, once trees are planted. */
export const readEvidenceSummary = async (
  deps: EvidenceDependencies,
  render: EvidenceRenderer<EvidenceSummary>,
): Promise<CachedResponse & { readonly isLasting: boolean }> => {
  const { db, clock } = deps;
  const baseUrl = deps.publicBaseUrl();
  const now = clock.now();
  const cached = await findCachedResponse(db, SUMMARY_KEY, baseUrl, now);
  if (cached) {
    return { ...cached, isLasting: true };
  }
  const summary = await summarize(db);
  const body = render(summary, baseUrl);
  // A new deployment must not show for 30 days that nothing is planted.
  if (summary.plantedTrees === 0) {
    return { body, storedAt: now, isLasting: false };
  }
  const stored = await cacheEvidence(deps, { key: SUMMARY_KEY, baseUrl, revision: 0, body });
  return { ...stored, isLasting: true };
};
