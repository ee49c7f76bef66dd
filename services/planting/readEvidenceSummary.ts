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

/** Returns the rendered summary: the same text from every process for 30 days. */
export const readEvidenceSummary = async (
  deps: EvidenceDependencies,
  render: EvidenceRenderer<EvidenceSummary>,
): Promise<CachedResponse> => {
  const { db, clock } = deps;
  const baseUrl = deps.publicBaseUrl();
  return (
    (await findCachedResponse(db, SUMMARY_KEY, baseUrl, clock.now())) ??
    cacheEvidence(deps, {
      key: SUMMARY_KEY,
      baseUrl,
      revision: 0,
      body: render(await summarize(db), baseUrl),
    })
  );
};
