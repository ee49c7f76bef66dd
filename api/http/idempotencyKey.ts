import { isUtf8 } from "node:buffer";
import { z } from "zod";
import { describeIssues } from "../../runtime/describeIssues.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { idempotencyKey } from "../../modules/registrations/registrations.rules.ts";
import type { RequestContext } from "./requestContext.ts";
import { parseRequest } from "./parseRequest.ts";

/*
 * The header Idempotency-Key. On the store interface it is the only way to give a key. On the standalone interface it
 * means the same as the field `idempotency_key` of the body.
 */

const FIELD = "idempotency_key";

const headerSchema = z.object({ "Idempotency-Key": idempotencyKey() });

/** A string of a structured header (RFC 9651): quotes are syntax, and a backslash escapes a quote and itself. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/u;

const unquote = (given: string): string =>
  QUOTED.exec(given)?.[1]?.replaceAll(/\\(.)/gu, "$1") ?? given;

/**
 * Returns the key in the header; null if the header is absent or empty.
 * @throws DomainError request_invalid
 */
export const readIdempotencyKey = (ctx: RequestContext): string | null => {
  const given = ctx.req.headers["idempotency-key"];
  if (typeof given !== "string") {
    return null;
  }
  // Node joins repeated headers into one value, which would be a key that the client never sent.
  if ((ctx.req.headersDistinct["idempotency-key"] ?? []).length > 1) {
    throw invalidRequest("Idempotency-Key: must be given at most once");
  }
  if (given.trim() === "") {
    return null;
  }
  // Two different keys must not become one.
  const bytes = Buffer.from(given, "latin1");
  if (!isUtf8(bytes)) {
    throw invalidRequest("Idempotency-Key: must be well-formed UTF-8");
  }
  const headers = { "Idempotency-Key": unquote(bytes.toString()) };
  return parseRequest(headerSchema, headers, "parameter")["Idempotency-Key"];
};

/**
 * Returns whether a name may be a misspelt one of the field, such as `idempotencyKey`, `idempotent-key` or `idempotency_keyy`.
 * One pattern for both parts would take a time that grows with the square of the name's length.
 */
const isLikeField = (name: string): boolean => {
  const start = name.search(/idempot/iu);
  return start >= 0 && /key/iu.test(name.slice(start));
};

/**
 * Returns the message of a 400 for a body that has the key under another name than the right one, or null: if it were
 * ignored, a repeated request would be done and billed twice.
 */
export const findWrongKey = (body: unknown, rightName: string = FIELD): string | null => {
  const names = typeof body === "object" && body !== null ? Object.keys(body) : [];
  const wrong = names.find((name) => name !== rightName && isLikeField(name));
  return wrong === undefined
    ? null
    : describeIssues(
        [{ code: "custom", path: [wrong], message: `must be given as ${rightName}` }],
        "field",
      );
};

export const hasIdempotencyKeyField = (body: z.ZodType | undefined): boolean =>
  body instanceof z.ZodObject && FIELD in body.shape;

/**
 * Returns the body with the header's key in its field. An empty field or null counts as absent.
 * @throws DomainError request_invalid if header and field differ
 */
export const withHeaderKey = (ctx: RequestContext, body: unknown): unknown => {
  const key = readIdempotencyKey(ctx);
  if (key === null || typeof body !== "object" || body === null || Array.isArray(body)) {
    return body;
  }
  const given: unknown = FIELD in body ? body[FIELD] : undefined;
  if (given === undefined || given === null || given === "") {
    return { ...body, [FIELD]: key };
  }
  if (typeof given === "string" && given !== key) {
    throw invalidRequest(`${FIELD}: must equal the header Idempotency-Key if both are given`);
  }
  return body;
};

export const REPLAY_HEADER = {
  "Idempotent-Replayed": "`true` if an earlier request created the record.",
};

export const markReplay = (ctx: RequestContext, { replayed }: { readonly replayed: boolean }) => {
  if (replayed) {
    ctx.set("Idempotent-Replayed", "true");
  }
};
