/** One row of the printed table. */
export type Result = {
  readonly what: string;
  readonly measured: string;
  readonly baseline: string;
  readonly ratio: string;
  readonly goal: string;
  /** Null without a goal. */
  readonly isReached: boolean | null;
};

const HEAD = ["what", "measured", "baseline", "ratio", "goal", "reached"] as const;

const formatReached = (isReached: boolean | null): string =>
  isReached === null ? "" : isReached ? "yes" : "NO";

/** Formats results as a Markdown table with aligned columns. */
export const formatTable = (results: readonly Result[]): string => {
  const rows = [
    HEAD,
    ...results.map(({ what, measured, baseline, ratio, goal, isReached }) => [
      what,
      measured,
      baseline,
      ratio,
      goal,
      formatReached(isReached),
    ]),
  ];
  const widths = HEAD.map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? "").length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (cells[column] ?? "").padEnd(width)).join(" | ")} |`;
  const [head = HEAD, ...body] = rows;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...body.map(line)].join("\n");
};
