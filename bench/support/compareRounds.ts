import type { Result } from "./result.ts";
import { describeSpread, median } from "./statistics.ts";

/** Of the ratio to the baseline. */
type Goal = { readonly atLeast: number } | { readonly atMost: number };

const describeGoal = (goal: Goal): string =>
  "atLeast" in goal ? `at least ${goal.atLeast.toFixed(2)}` : `at most ${goal.atMost.toFixed(2)}`;

const reaches = (ratio: number, goal: Goal): boolean =>
  "atLeast" in goal ? ratio >= goal.atLeast : ratio <= goal.atMost;

/**
 * Compares a value of each round with the baseline of the same round, so that a slow minute of the machine affects both.
 * @param baseline null if it could not be measured
 */
export const compareRounds = <Round>(
  what: string,
  rounds: readonly Round[],
  {
    value,
    baseline,
    digits = 0,
    goal = null,
  }: {
    readonly value: (round: Round) => number;
    readonly baseline: (round: Round) => number | null;
    readonly digits?: number;
    readonly goal?: Goal | null;
  },
): Result => {
  const baselines = rounds.flatMap((round) => baseline(round) ?? []);
  const isMeasured = baselines.length === rounds.length;
  const ratio = median(rounds.map((round) => value(round) / (baseline(round) ?? Number.NaN)));
  return {
    what,
    measured: describeSpread(rounds.map(value), digits),
    baseline: isMeasured ? describeSpread(baselines, digits) : "not measured",
    ratio: isMeasured ? ratio.toFixed(2) : "",
    goal: goal === null ? "" : describeGoal(goal),
    isReached: goal === null || !isMeasured ? null : reaches(ratio, goal),
  };
};
