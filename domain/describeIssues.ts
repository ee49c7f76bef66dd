import type { z } from "zod";

const ISSUES_SHOWN = 20;
const NAME_SHOWN = 100;

const nameOf = (path: readonly PropertyKey[]): string =>
  path.map(String).join(".").slice(0, NAME_SHOWN) || "(empty name)";

const linesOf = (issue: z.core.$ZodIssue, part: string): readonly string[] =>
  issue.code === "unrecognized_keys"
    ? issue.keys.map((key) => `${nameOf([...issue.path, key])}: unknown ${part}`)
    : [issue.path.length === 0 ? issue.message : `${nameOf(issue.path)}: ${issue.message}`];

/**
 * Describes everything that is wrong with an input, by the field names that the client used.
 * @param part what the input's entries are called
 */
export const describeIssues = (
  issues: readonly z.core.$ZodIssue[],
  part: "field" | "parameter",
): string => {
  const lines = issues.flatMap((issue) => linesOf(issue, part));
  const more = lines.length > ISSUES_SHOWN ? `; and ${lines.length - ISSUES_SHOWN} more` : "";
  return `${lines.slice(0, ISSUES_SHOWN).join("; ")}${more}`;
};
