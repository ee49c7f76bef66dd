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
