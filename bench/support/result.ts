/** One line of the table that a run prints. */
export type Result = {
  readonly what: string;
  readonly measured: string;
  readonly baseline: string;
  readonly ratio: string;
  readonly goal: string;
  /** Null where nothing is promised. */
  readonly reached: boolean | null;
};

const HEAD = ["what", "measured", "baseline", "ratio", "goal", "reached"] as const;

const reachedWord = (reached: boolean | null): string =>
  reached === null ? "" : reached ? "yes" : "NO";

/** The results as a Markdown table whose columns also line up on a terminal. */
export const formatTable = (results: readonly Result[]): string => {
  const rows = [
    HEAD,
    ...results.map(({ what, measured, baseline, ratio, goal, reached }) => [
      what,
      measured,
      baseline,
      ratio,
      goal,
      reachedWord(reached),
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
