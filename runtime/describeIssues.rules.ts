import { z } from "zod";

/** Returns a schema's error message, which distinguishes a missing value from a wrong one. */
export const mustBe =
  (what: string) =>
  (issue: { readonly input?: unknown }): string =>
    issue.input === undefined ? "required" : `must be ${what}`;

const listed = (values: readonly string[]): string => `one of ${values.join(", ")}`;

export const mustBeOneOf = (values: readonly string[]): string => `must be ${listed(values)}`;

export const oneOf = <const Values extends readonly string[]>(values: Values) =>
  z.enum(values, { error: mustBe(listed(values)) });

const ISSUES_SHOWN = 20;
const NAME_SHOWN = 100;

const nameOf = (path: readonly PropertyKey[]): string =>
  path.map(String).join(".").slice(0, NAME_SHOWN) || "(empty name)";

const countLines = (issue: z.core.$ZodIssue): number =>
  issue.code === "unrecognized_keys" ? issue.keys.length : 1;

/** Returns the first lines only, because a body may have a hundred thousand unknown names. */
const firstLinesOf = (issue: z.core.$ZodIssue, part: string): readonly string[] =>
  issue.code === "unrecognized_keys"
    ? issue.keys
        .slice(0, ISSUES_SHOWN)
        .map((key) => `${nameOf([...issue.path, key])}: unknown ${part}`)
    : [issue.path.length === 0 ? issue.message : `${nameOf(issue.path)}: ${issue.message}`];

const TYPES: Readonly<Record<string, string>> = {
  array: "an array",
  boolean: "true or false",
  int: "an integer",
  number: "a number",
  object: "a JSON object",
  string: "a string",
};

const UNITS: Readonly<Record<string, string>> = { array: " entries", string: " characters" };

/**
 * Returns the message of an issue for which the schema has none. For the option `error` of `safeParse`, because zod's own
 * messages use JavaScript's type names and comparison signs.
 */
export const messageOfIssue: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type": {
      const type = TYPES[issue.expected];
      return issue.input === undefined ? "required" : type && `must be ${type}`;
    }
    case "invalid_value":
      return issue.input === undefined ? "required" : mustBeOneOf(issue.values.map(String));
    case "invalid_union":
      return Array.isArray(issue["options"])
        ? mustBeOneOf(issue["options"].map(String))
        : undefined;
    case "too_small": {
      const unit = UNITS[issue.origin];
      return unit !== undefined && issue.minimum === 1
        ? "must not be empty"
        : `must ${unit === undefined ? "be" : "have"} at least ${issue.minimum}${unit ?? ""}`;
    }
    case "too_big": {
      const unit = UNITS[issue.origin];
      return `must ${unit === undefined ? "be" : "have"} at most ${issue.maximum}${unit ?? ""}`;
    }
    case "custom":
    case "invalid_element":
    case "invalid_format":
    case "invalid_key":
    case "not_multiple_of":
      return undefined;
    // Never shown, because each name has its own line. Zod's message would list all names.
    case "unrecognized_keys":
      return "unknown names";
  }
};

/**
 * Lists what is wrong with an input, by the field names that the client used.
 * @param part what the input's entries are called
 */
export const listIssues = (
  issues: readonly z.core.$ZodIssue[],
  part: "field" | "parameter",
): readonly string[] => {
  const lines = issues
    .slice(0, ISSUES_SHOWN)
    .flatMap((issue) => firstLinesOf(issue, part))
    .slice(0, ISSUES_SHOWN);
  const hidden = issues.reduce((sum, issue) => sum + countLines(issue), 0) - lines.length;
  return hidden > 0 ? [...lines, `and ${hidden} more`] : lines;
};

export const describeIssues = (
  issues: readonly z.core.$ZodIssue[],
  part: "field" | "parameter",
): string => listIssues(issues, part).join("; ");
