import { createLookups } from "../../db/batching/joinCalls.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { requireFound } from "../../runtime/errors.rules.ts";
import type { AccountMode, Mode } from "../records/owner.rules.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";
import type { EvidenceContext, PlantingContext } from "./context.ts";
import { expectedPartner, isSimulated } from "./order.rules.ts";
import { referenceId } from "./referenceId.ts";
import { simulateEvidence } from "./simulated/simulateEvidence.ts";
import { findSummary, lockSummary, readSummary, storeSummary } from "./summary.sql.ts";
import type { Summary } from "./summary.sql.ts";
import { isTimelineComplete } from "./timeline.rules.ts";
import type { EvidenceStage, TreeEvidence } from "./timeline.rules.ts";
import { listEvidenceTrees } from "./treeEvidence.sql.ts";

type TreeSelection = AccountMode & { readonly id: string };

export const TREE_NOT_FOUND = "failed to find tree";

/**
 * Creates a reader of trees that looks them up in batches. It derives evidence from the facts of the order, so all processes
 * return the same until the next milestone, and none returns what a client has just changed.
 */
export const createEvidenceReader = ({ db, planting }: EvidenceContext) => {
  const findTree = createLookups(async (names) => {
    const selections = names.map((name): TreeSelection => {
      const [accountId = "", mode, ...id] = name.split(" ");
      return { accountId, mode: mode === "live" ? "live" : "test", id: id.join(" ") };
    });
    const trees = await listEvidenceTrees(db, selections);
    return new Map(trees.map((tree) => [names[tree.place] ?? "", tree]));
  });

  /**
   * Returns the evidence of a tree registration, or that it would have at a stage, and whether it is expected to stay,
   * because the order is no longer polled and its timeline is complete.
   * @throws DomainError record_not_found when the account has no such registration in this mode
   */
  return async ({ accountId, mode, id }: TreeSelection, stage: EvidenceStage | null) => {
    const tree = requireFound(await findTree(`${accountId} ${mode} ${id}`), TREE_NOT_FOUND);
    const registration = { ...tree, id: shownIdOf(tree) };
    if (stage !== null) {
      return { evidence: simulateEvidence(registration, stage), isComplete: false };
    }
    const configured = planting.partnerFor(mode);
    const { partner, isOrderedElsewhere } = tree;
    const evidence: TreeEvidence = {
      registration,
      partnerName: isOrderedElsewhere ? "Earlier system" : (tree.partnerName ?? configured.name),
      importedFrom: tree.importedFrom,
      isSimulated: isSimulated(expectedPartner(tree, configured.kind) ?? ""),
      shape: tree.timeline ?? configured.timeline,
      order: tree.order,
      facts: tree.facts,
      region: tree.region,
      idOf: (kind, reference) => referenceId(partner ?? "", kind, reference),
    };
    const { isFinished, timeline, stage: reached } = tree;
    // An imported order is never polled, whatever it has reached.
    const isComplete =
      isFinished && timeline !== null && reached !== null && isTimelineComplete(timeline, reached);
    return { evidence, isComplete };
  };
};

/** The contract's 30 days. */
const SUMMARY_MS = 30 * DAY_MS;

/**
 * Returns the summary of a mode: the same from every process for 30 days, or until more trees are planted. It has the trees of
 * the partner that plants for this mode: all simulated, or all real.
 */
export const readSharedSummary = async ({ db, clock, planting }: PlantingContext, mode: Mode) => {
  const trees = { mode, isSimulated: isSimulated(planting.partnerFor(mode).kind) };
  const calculate = (): Promise<Summary> =>
    db.transaction(async (transaction) => {
      await lockSummary(transaction);
      const stored = await findSummary(transaction, trees, clock.now());
      if (stored) {
        return stored;
      }
      const calculated = await readSummary(transaction, trees);
      const expiresAt = new Date(clock.now().getTime() + SUMMARY_MS);
      await storeSummary(transaction, trees, calculated, expiresAt);
      return calculated;
    });
  const summary = (await findSummary(db, trees, clock.now())) ?? (await calculate());
  return { ...summary, isSimulated: trees.isSimulated };
};
