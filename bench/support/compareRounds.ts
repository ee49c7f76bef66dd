import { describeSpread, median } from "./statistics.ts";

/** One row of the printed table. */
export type Result = {
  readonly what: string;
  readonly measured: string;
  readonly baseline: string;
  readonly ratio: string;
  readonly goal: string;
  readonly reached: "yes" | "NO" | "";
};

/** For the ratio to the baseline, or for the measured value itself. */
type Goal = { readonly atLeast: number } | { readonly atMost: number } | { readonly below: number };

const judge = (goal: Goal, value: number, ratio: number): Pick<Result, "goal" | "reached"> => {
  const [text, isReached] =
    "atLeast" in goal
      ? [`ratio at least ${goal.atLeast.toFixed(2)}`, ratio >= goal.atLeast]
      : "atMost" in goal
        ? [`ratio at most ${goal.atMost.toFixed(2)}`, ratio <= goal.atMost]
        : [`below ${goal.below}`, value < goal.below];
  return { goal: text, reached: isReached ? "yes" : "NO" };
};

/** Compares a value of each round with the baseline of the same round, so that a slow minute affects both. */
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
    readonly baseline: (round: Round) => number;
    readonly digits?: number;
    readonly goal?: Goal | null;
  },
): Result => {
  const ratio = median(rounds.map((round) => value(round) / baseline(round)));
  return {
    what,
    measured: describeSpread(rounds.map(value), digits),
    baseline: describeSpread(rounds.map(baseline), digits),
    ratio: ratio.toFixed(2),
    ...(goal === null ? { goal: "", reached: "" } : judge(goal, median(rounds.map(value)), ratio)),
  };
};

const COLUMNS = ["what", "measured", "baseline", "ratio", "goal", "reached"] as const;

/** Formats results as a Markdown table with aligned columns. */
export const formatTable = (results: readonly Result[]): string => {
  const rows = [COLUMNS, ...results.map((result) => COLUMNS.map((name) => result[name]))];
  const lines = rows.map((row) => {
    const cells = row.map((cell, column) =>
      cell.padEnd(Math.max(...rows.map((each) => each[column]?.length ?? 0))),
    );
    return `| ${cells.join(" | ")} |`;
  });
  return lines.toSpliced(1, 0, lines[0]?.replaceAll(/[^|]/gu, "-") ?? "").join("\n");
};
