import type { CommonQueryMethods } from "slonik";
import {
  findCachedResponse,
  lockSummary,
  summaryKey,
} from "../../../db/planting/cachedResponses.ts";
import type { CachedResponse } from "../../../db/planting/cachedResponses.ts";
import type { PlantedRegion } from "../../../db/planting/summary.ts";
import { readSummary } from "../../../db/planting/summary.ts";
import { projectImpact } from "../../../domain/planting/impactFactors.ts";
import type { ProjectedImpact } from "../../../domain/planting/impactFactors.ts";
import type { EvidenceDependencies, EvidenceRenderer } from "./cacheEvidence.ts";
import { cacheEvidence } from "./cacheEvidence.ts";

/** The latest ones of each site; a region may have several sites. */
const MEDIA_PER_SITE = 6;

/** What all accounts have registered and planted with production keys. */
export type EvidenceSummary = {
  readonly registeredTrees: number;
  readonly plantedTrees: number;
  /** How many of the planted trees are simulated. */
  readonly simulatedTrees: number;
  readonly projected: ProjectedImpact;
  readonly regions: readonly PlantedRegion[];
};

const sumTrees = (planted: readonly { readonly trees: number }[]): number =>
  Math.min(
    planted.reduce((sum, { trees }) => sum + trees, 0),
    Number.MAX_SAFE_INTEGER,
  );

const summarize = async (
  db: CommonQueryMethods,
  countsSimulated: boolean,
): Promise<EvidenceSummary> => {
  const { registeredTrees, planted, regions } = await readSummary(
    db,
    MEDIA_PER_SITE,
    countsSimulated,
  );
  return {
    registeredTrees,
    plantedTrees: sumTrees(planted),
    simulatedTrees: sumTrees(planted.filter((part) => part.isSimulated)),
    projected: projectImpact(planted),
    regions,
  };
};

type SummaryResponse = CachedResponse & {
  readonly isLasting: boolean;
  readonly isSimulated: boolean;
};

/** Returns the rendered summary: the same text from every process for 30 days, once trees are planted. */
export const readEvidenceSummary = async (
  deps: EvidenceDependencies,
  render: EvidenceRenderer<EvidenceSummary>,
): Promise<SummaryResponse> => {
  const { db, clock, planting } = deps;
  const baseUrl = deps.publicBaseUrl();
  const now = clock.now();
  const countsSimulated = planting.countsSimulated();
  const key = summaryKey(countsSimulated);
  const lasting = { isLasting: true, isSimulated: countsSimulated };
  const cached = await findCachedResponse(db, key, baseUrl, now);
  if (cached) {
    return { ...cached, ...lasting };
  }
  return db.transaction(async (transaction) => {
    await lockSummary(transaction);
    const stored = await findCachedResponse(transaction, key, baseUrl, now);
    if (stored) {
      return { ...stored, ...lasting };
    }
    const summary = await summarize(transaction, countsSimulated);
    const body = render(summary, baseUrl);
    // A new deployment must not show for 30 days that nothing is planted.
    if (summary.plantedTrees === 0) {
      return { body, storedAt: now, ...lasting, isLasting: false };
    }
    const response = { key, baseUrl, revision: 0, body };
    return { ...(await cacheEvidence({ db: transaction, clock }, response)), ...lasting };
  });
};
