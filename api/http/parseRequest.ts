import type { ParsedUrlQuery } from "node:querystring";
import { z } from "zod";
import { describeIssues, messageOfIssue } from "../../domain/describeIssues.ts";
import { invalidRequest } from "../../domain/errors.ts";
import { isTrackingParameter } from "./isTrackingParameter.ts";

/** Reads null in an optional field as an absent field. */
const nullAsAbsent = (field: z.core.$ZodType): z.core.$ZodType =>
  field instanceof z.ZodOptional
    ? field
        .nullable()
        .transform((given: unknown) => given ?? undefined)
        .optional()
    : field;

/** A body with these fields and no others. Null means that an optional field is not given. */
export const bodyObject = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.strictObject(
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the fields' outputs stay the same.
    Object.fromEntries(
      Object.entries(shape).map(([name, field]) => [name, nullAsAbsent(field)]),
    ) as Shape,
    {
      error: (issue) =>
        issue.code === "invalid_type" ? "the body must be a JSON object" : undefined,
    },
  );

/** Query parameters: each at most once, and no others except those of tracing. An empty one is read as absent. */
export const queryObject = <Shape extends z.ZodRawShape>(shape: Shape) => z.strictObject(shape);

/**
 * Parses one part of a request.
 * @param part how the messages call its entries
 * @throws DomainError `request_invalid` that lists every problem
 */
export const parseRequest = <Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  part: "field" | "parameter",
): z.output<Schema> => {
  const result = schema.safeParse(value, { error: messageOfIssue });
  if (!result.success) {
    throw invalidRequest(describeIssues(result.error.issues, part));
  }
  return result.data;
};

const parametersOf = (schema: z.ZodType): readonly string[] =>
  schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];

const withoutIgnored = (query: ParsedUrlQuery, names: readonly string[]): ParsedUrlQuery =>
  Object.fromEntries(
    Object.entries(query).filter(
      ([name, value]) => !isTrackingParameter(name) && (value !== "" || !names.includes(name)),
    ),
  );

/**
 * Parses a query string. A parameter that is given more than once is reported as that, whatever its values are.
 * @throws DomainError `request_invalid` that lists every problem
 */
export const parseQuery = <Schema extends z.ZodType>(
  schema: Schema,
  query: ParsedUrlQuery,
): z.output<Schema> => {
  const names = parametersOf(schema);
  const result = schema.safeParse(withoutIgnored(query, names), { error: messageOfIssue });
  if (!result.success) {
    const issues = result.error.issues.map((issue) =>
      Array.isArray(query[String(issue.path[0])])
        ? { ...issue, message: "must be given at most once" }
        : issue,
    );
    const hasUnknown = issues.some(({ code }) => code === "unrecognized_keys");
    throw invalidRequest(
      describeIssues(issues, "parameter") +
        (hasUnknown ? `; accepted parameters: ${names.join(", ")}` : ""),
    );
  }
  return result.data;
};

const fieldsOf = (body: z.ZodType): readonly string[] => {
  if (body instanceof z.ZodPipe && body.in instanceof z.ZodType) {
    return fieldsOf(body.in);
  }
  return body instanceof z.ZodObject ? Object.keys(body.shape) : [];
};

const normalizeName = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/gu, "");

/**
 * Returns a check that rejects query parameters of a POST that are meant for its body or headers, in any spelling: without
 * its idempotency key a request could be billed twice, and without its order a refund would take other units. Others, such
 * as those of tracing, are ignored. The check throws a DomainError request_invalid.
 * @param selectors names by which only other endpoints select records
 */
export const createMisplacedFieldCheck = (
  body: z.ZodType | undefined,
  selectors: readonly string[],
): ((query: ParsedUrlQuery) => void) => {
  const fields = body === undefined ? [] : fieldsOf(body);
  const selectorNames = new Set(selectors.map(normalizeName));
  const names = new Set([...fields, "idempotency_key", ...selectors].map(normalizeName));
  return (query) => {
    const misplaced = Object.keys(query).filter((name) => names.has(normalizeName(name)));
    if (misplaced.length > 0) {
      const issues = misplaced.map((name) => ({
        code: "custom" as const,
        path: [name],
        message: "does not belong in the query string",
      }));
      const accepted = misplaced.some((name) => selectorNames.has(normalizeName(name)))
        ? `; accepted fields of the body: ${fields.join(", ")}`
        : "";
      throw invalidRequest(describeIssues(issues, "parameter") + accepted);
    }
  };
};
