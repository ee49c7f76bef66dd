import { parse } from "node:querystring";
import type { ParsedUrlQuery } from "node:querystring";
import { z } from "zod";
import { describeIssues, messageOfIssue } from "../../runtime/describeIssues.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { HttpError } from "./httpError.ts";

/**
 * Parses a query string; the values of a repeated parameter become an array, and an empty parameter is absent. Takes time in
 * proportion to its length, unlike `ctx.query`, which searches all pairs again for each pair.
 */
export const parseQueryString = (querystring: string): ParsedUrlQuery =>
  Object.fromEntries(
    Object.entries(parse(querystring.replace(/^\?/u, ""), "&", "=", { maxKeys: 0 })).flatMap(
      ([name, given]) => {
        const values = [given ?? []].flat().filter((value) => value !== "");
        return values.length === 0 ? [] : [[name, values.length === 1 ? values[0] : values]];
      },
    ),
  );

/** Decodes a header that Node has read as Latin-1: clients send text beyond ASCII as UTF-8. */
export const decodeHeader = (given: string): string => Buffer.from(given, "latin1").toString();

/** A body with these fields. Others are ignored. */
export const bodyObject = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.object(shape, {
    error: ({ code }) => (code === "invalid_type" ? "the body must be a JSON object" : undefined),
  });

/** A field or parameter that may be absent. */
export const optional = <Schema extends z.ZodType>(
  schema: Schema,
  description: string,
  ...examples: readonly unknown[]
) => schema.optional().meta({ description, ...(examples.length > 0 && { examples }) });

export const wholeNumber = () => z.int().min(0);

/** A response with exactly these fields, or a part of one, under its name in the API description. */
export const responseObject = <Shape extends z.ZodRawShape>(id: string, shape: Shape) =>
  z.strictObject(shape).meta({ id });

/**
 * Parses one part of a request.
 * @param part how the messages call its entries
 * @throws DomainError `request_invalid` that lists every problem
 */
export const parseRequest = <Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  part: "field" | "parameter",
  correct = (issue: z.core.$ZodIssue): z.core.$ZodIssue => issue,
): z.output<Schema> => {
  const result = schema.safeParse(value, { error: messageOfIssue });
  if (!result.success) {
    const issues = result.error.issues.map((issue) => correct(issue));
    throw invalidRequest(describeIssues(issues, part));
  }
  return result.data;
};

const withoutNulls = (body: unknown): unknown =>
  typeof body === "object" &&
  body !== null &&
  !Array.isArray(body) &&
  Object.values(body).includes(null)
    ? Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
    : body;

/**
 * Parses a body, in which a field of null is absent.
 * @throws DomainError `request_invalid` that lists every problem
 */
export const parseBody = <Schema extends z.ZodType>(schema: Schema, body: unknown) =>
  parseRequest(schema, withoutNulls(body), "field");

/** @throws HttpError request_malformed */
const requireWellFormed = (querystring: string): void => {
  try {
    decodeURIComponent(querystring);
  } catch (error) {
    throw new HttpError(
      "request_malformed",
      "the query string is not well-formed percent-encoded UTF-8",
      { cause: error },
    );
  }
};

/**
 * Parses a query string. A parameter that is given more than once is reported as that, whatever its values are.
 * @throws DomainError `request_invalid` that lists every problem, HttpError request_malformed
 */
export const parseQuery = <Schema extends z.ZodType>(schema: Schema, querystring: string) => {
  requireWellFormed(querystring);
  const query = parseQueryString(querystring);
  return parseRequest(schema, query, "parameter", (issue) =>
    Array.isArray(query[String(issue.path[0])])
      ? { ...issue, message: "must be given at most once" }
      : issue,
  );
};

export const booleanParameter = () =>
  z
    .enum(["true", "false"], { error: "must be true or false" })
    // Generated clients have a boolean for it.
    .meta({ type: "boolean", enum: undefined });
