import type { ParsedUrlQuery } from "node:querystring";
import type { z } from "zod";
import { describeIssues } from "../../domain/describeIssues.ts";
import { DomainError } from "../../domain/errors.ts";

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
    throw new DomainError("request_invalid", describeIssues(result.error.issues, part));
  }
  return result.data;
};

/**
 * Checks a query. What is wrong with a parameter that is given more than once is just that, whatever its values are.
 * @throws DomainError `request_invalid` that names everything that is wrong
 */
export const parseQuery = <Schema extends z.ZodType>(
  schema: Schema,
  query: ParsedUrlQuery,
): z.output<Schema> => {
  const result = schema.safeParse(query);
  if (!result.success) {
    const issues = result.error.issues.map((issue) =>
      Array.isArray(query[String(issue.path[0])])
        ? { ...issue, message: "must be given at most once" }
        : issue,
    );
    throw new DomainError("request_invalid", describeIssues(issues, "parameter"));
  }
  return result.data;
};
