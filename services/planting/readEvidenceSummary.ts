import type { CommonQueryMethods } from "slonik";
import {
  findCachedResponse,
  storeCachedResponse,
  SUMMARY_KEY,
} from "../../db/planting/cachedResponses.ts";
import type { CachedResponse } from "../../db/planting/cachedResponses.ts";
import { listRegions } from "../../db/planting/sites.ts";
import { sumPlantedByFactor } from "../../db/planting/tallies.ts";
import { sumAllAccounts } from "../../db/registrations/publicTotals.ts";
import { absoluteUrl } from "../../domain/planting/buildTreeEvidence.ts";
import type { EvidenceSummary } from "../../domain/planting/evidenceSummary.ts";
import { nameRegion } from "../../domain/planting/evidenceSummary.ts";
import { projectImpact } from "../../domain/planting/impactFactors.ts";
import type { EvidenceDependencies } from "./readTreeEvidence.ts";
import { EVIDENCE_CACHE_SECONDS } from "./readTreeEvidence.ts";

/** The latest of each site; a region may have several. */
const MEDIA_PER_SITE = 6;

const summarize = async (db: CommonQueryMethods, baseUrl: string): Promise<EvidenceSummary> => {
  const planted = await sumPlantedByFactor(db);
  const { carbonTons, areaHectares } = projectImpact(planted);
  const regions = await listRegions(db, MEDIA_PER_SITE);
  return {
    summary: {
      total_trees: await sumAllAccounts(db, "tree"),
      trees_planted: Math.min(
        planted.reduce((sum, { trees }) => sum + trees, 0),
        Number.MAX_SAFE_INTEGER,
      ),
      carbon_offset_tons: carbonTons,
      area_restored_hectares: areaHectares,
      countries: [...new Set(regions.map(({ country }) => country))],
    },
    regions: regions.map(({ region, country, media }) => ({
      id: nameRegion(country, region),
      name: region,
      country,
      evidence: media.map(({ id, type, url, date }) => ({
        id,
        type,
        url: absoluteUrl(url, baseUrl),
        date,
      })),
    })),
  };
};

/**
 * What all accounts have registered and planted with their production keys, as JSON: the same bytes from every process for
 * 30 days.
 */
export const readEvidenceSummary = async (deps: EvidenceDependencies): Promise<CachedResponse> => {
  const { db, clock } = deps;
  const baseUrl = deps.publicBaseUrl();
  const storedAt = clock.now();
  const known = await findCachedResponse(db, SUMMARY_KEY, baseUrl, storedAt);
  return (
    known ??
    storeCachedResponse(db, {
      key: SUMMARY_KEY,
      baseUrl,
      revision: 0,
      body: JSON.stringify(await summarize(db, baseUrl)),
      storedAt,
      expiresAt: new Date(storedAt.getTime() + EVIDENCE_CACHE_SECONDS * 1000),
    })
  );
};
