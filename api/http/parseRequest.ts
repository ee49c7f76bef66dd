import type { z } from "zod";
import { DomainError } from "../../domain/errors.ts";

const ISSUES_SHOWN = 20;
const NAME_SHOWN = 100;

const nameOf = (path: readonly PropertyKey[]): string =>
  path.map(String).join(".").slice(0, NAME_SHOWN);

const linesOf = (issue: z.core.$ZodIssue, part: string): readonly string[] =>
  issue.code === "unrecognized_keys"
    ? issue.keys.map((key) => `${nameOf([...issue.path, key])}: unknown ${part}`)
    : [issue.path.length === 0 ? issue.message : `${nameOf(issue.path)}: ${issue.message}`];

/**
 * Checks one part of a request.
 * @param part what one of its entries is called: `field` or `parameter`
 * @throws DomainError `request_invalid` that names everything that is wrong
 */
export const parseRequest = <Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  part: "field" | "parameter",
): z.output<Schema> => {
  const result = schema.safeParse(value);
  if (!result.success) {
    const lines = result.error.issues.flatMap((issue) => linesOf(issue, part));
    const more = lines.length > ISSUES_SHOWN ? `; and ${lines.length - ISSUES_SHOWN} more` : "";
    throw new DomainError("request_invalid", `${lines.slice(0, ISSUES_SHOWN).join("; ")}${more}`);
  }
  return result.data;
};
