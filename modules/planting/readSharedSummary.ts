import { DAY_MS } from "../../runtime/durations.rules.ts";
import type { Mode } from "../records/owner.rules.ts";
import type { PlantingContext } from "./context.ts";
import { isSimulated } from "./order.rules.ts";
import type { Summary } from "./summary.sql.ts";
import { findSummary, lockSummary, readSummary, storeSummary } from "./summary.sql.ts";

/** The contract's 30 days. */
const SUMMARY_MS = 30 * DAY_MS;

/**
 * Returns the summary of a mode: the same from every process for 30 days, or until more trees are planted. It has the trees of
 * the partner that plants for this mode: all simulated, or all real.
 */
export const readSharedSummary = async (
  { db, clock, planting }: PlantingContext,
  mode: Mode,
): Promise<Summary & { readonly isSimulated: boolean }> => {
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
