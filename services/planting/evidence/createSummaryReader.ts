import type { CommonQueryMethods } from "slonik";
import { runForAll } from "../../../db/pools/connectionShares.ts";
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
import { cacheEvidence, EVIDENCE_CACHE_SECONDS } from "./cacheEvidence.ts";

/**
 * How long a summary without planted trees is cached. A new deployment must not show for 30 days that nothing is planted,
 * but it may take months to have planted trees, and the summary reads the totals of all accounts.
 */
const UNPLANTED_CACHE_SECONDS = 10;

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
  /** Whether it has planted trees, and is cached for 30 days. */
  readonly isLasting: boolean;
  readonly isSimulated: boolean;
};

const findSummary = async (
  db: CommonQueryMethods,
  key: string,
  baseUrl: string,
  now: Date,
): Promise<(CachedResponse & { readonly isLasting: boolean }) | null> => {
  const cached = await findCachedResponse(db, key, baseUrl, now);
  if (!cached) {
    return null;
  }
  const { body, storedAt, expiresAt } = cached;
  const cachedMs = expiresAt.getTime() - storedAt.getTime();
  return { body, storedAt, isLasting: cachedMs > UNPLANTED_CACHE_SECONDS * 1000 };
};

/**
 * Creates a function that returns the rendered summary: the same text from every process for ten seconds, and for 30 days
 * once trees are planted. Requests that arrive while the process calculates it wait for the same calculation, so they
 * use one connection.
 */
export const createSummaryReader = (
  deps: EvidenceDependencies,
  render: EvidenceRenderer<EvidenceSummary>,
): (() => Promise<SummaryResponse>) => {
  const { db, clock, planting } = deps;

  const calculate = (key: string, baseUrl: string, isSimulated: boolean) =>
    db.transaction(async (transaction) => {
      await lockSummary(transaction);
      const stored = await findSummary(transaction, key, baseUrl, clock.now());
      if (stored) {
        return stored;
      }
      const summary = await summarize(transaction, isSimulated);
      const isLasting = summary.plantedTrees > 0;
      const response = await cacheEvidence(
        { db: transaction, clock },
        { key, baseUrl, revision: 0n, body: render(summary, baseUrl) },
        isLasting ? EVIDENCE_CACHE_SECONDS : UNPLANTED_CACHE_SECONDS,
      );
      return { ...response, isLasting };
    });

  let calculation: ReturnType<typeof calculate> | null = null;
  return async () => {
    const baseUrl = deps.publicBaseUrl();
    const isSimulated = planting.countsSimulated();
    const key = summaryKey(isSimulated);
    const cached = await findSummary(db, key, baseUrl, clock.now());
    if (cached) {
      return { ...cached, isSimulated };
    }
    calculation ??= runForAll(() =>
      calculate(key, baseUrl, isSimulated).finally(() => {
        calculation = null;
      }),
    );
    return { ...(await calculation), isSimulated };
  };
};
