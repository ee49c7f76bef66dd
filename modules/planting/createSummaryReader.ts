import type { CommonQueryMethods } from "slonik";
import { runForAll } from "../../runtime/client.ts";
import { findCachedResponse, lockSummary, summaryKey } from "./cachedResponses.sql.ts";
import type { CachedResponse, SummarizedTrees } from "./cachedResponses.sql.ts";
import type { PlantedRegion } from "./summary.sql.ts";
import { readSummary } from "./summary.sql.ts";
import type { Mode } from "../records/owner.rules.ts";
import { projectImpact } from "./impactFactors.rules.ts";
import type { ProjectedImpact } from "./impactFactors.rules.ts";
import { isSimulated } from "./order.rules.ts";
import type { EvidenceContext } from "./context.ts";
import type { EvidenceRenderer } from "./cacheEvidence.ts";
import { cacheEvidence } from "./cacheEvidence.ts";

/** The latest ones of each site; a region may have several sites. */
const MEDIA_PER_SITE = 6;

/** What all accounts have registered and planted in one mode. */
export type EvidenceSummary = {
  readonly registeredTrees: number;
  readonly plantedTrees: number;
  /** Whether all planted trees are simulated; otherwise none is. */
  readonly isSimulated: boolean;
  readonly projected: ProjectedImpact;
  readonly regions: readonly PlantedRegion[];
};

const summarize = async (
  db: CommonQueryMethods,
  trees: SummarizedTrees,
): Promise<EvidenceSummary> => {
  const { registeredTrees, planted, regions } = await readSummary(db, MEDIA_PER_SITE, trees);
  return {
    registeredTrees,
    plantedTrees: Math.min(
      planted.reduce((sum, part) => sum + part.trees, 0),
      Number.MAX_SAFE_INTEGER,
    ),
    isSimulated: trees.isSimulated,
    projected: projectImpact(planted),
    regions,
  };
};

type SummaryResponse = CachedResponse & { readonly isSimulated: boolean };

/**
 * Creates a function that returns the rendered summary of a mode: the same text from every process for 30 days, or until
 * more trees are planted. It has the trees of the partner that plants for this mode: all simulated, or all real. Requests
 * that arrive while the process calculates it wait for the same calculation, so they use one connection.
 */
export const createSummaryReader = (
  context: EvidenceContext,
  render: EvidenceRenderer<EvidenceSummary>,
): ((mode: Mode) => Promise<SummaryResponse>) => {
  const { db, clock, planting } = context;

  const calculate = (trees: SummarizedTrees, baseUrl: string): Promise<CachedResponse> =>
    db.transaction(async (transaction) => {
      await lockSummary(transaction);
      const key = summaryKey(trees);
      return (
        (await findCachedResponse(transaction, key, baseUrl, clock.now())) ??
        cacheEvidence(
          { db: transaction, clock },
          {
            key,
            baseUrl,
            revision: 0n,
            body: render(await summarize(transaction, trees), baseUrl),
          },
        )
      );
    });

  const calculations = new Map<string, Promise<CachedResponse>>();
  return async (mode) => {
    const baseUrl = context.publicBaseUrl();
    const trees = { mode, isSimulated: isSimulated(planting.partnerFor(mode).kind) };
    const key = summaryKey(trees);
    const calculateOnce = (): Promise<CachedResponse> => {
      const calculation =
        calculations.get(key) ??
        runForAll(() => calculate(trees, baseUrl).finally(() => calculations.delete(key)));
      calculations.set(key, calculation);
      return calculation;
    };
    const response =
      (await findCachedResponse(db, key, baseUrl, clock.now())) ?? (await calculateOnce());
    return { ...response, isSimulated: trees.isSimulated };
  };
};
