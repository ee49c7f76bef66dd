import { longText, metadata } from "../../modules/records/fields.rules.ts";
import { booleanParameter, optional } from "../http/parseRequest.ts";
import { attribution, idempotencyKey } from "../../modules/registrations/registrations.rules.ts";

/** Of new records. */
export const recordFields = {
  attribution: optional(attribution(), "A tag to filter by.", "newsletter"),
  metadata: optional(metadata(), "JSON object of at most 8 levels and 64 KiB, to filter by."),
  idempotency_key: optional(
    idempotencyKey(),
    "A later request with the same key returns the original record. Empty is the same as omitted.",
  ),
};

export const reasonField = optional(longText(), "Stored with the refund.", "order cancelled");

/** The parameter of lists that finds records without an attribution: an empty attribution filter is no filter. */
export const withoutAttribution = () =>
  optional(booleanParameter(), "`true` lists only records without an attribution.");

/** Returns what `refine` needs to reject a query with both this parameter and `without_attribution`. */
export const oneAttribution = (
  name: string,
): [(query: Readonly<Record<string, unknown>>) => boolean, { path: string[]; error: string }] => [
  (query) => query[name] === undefined || query["without_attribution"] !== "true",
  { path: ["without_attribution"], error: `excludes ${name}` },
];

/** Returns the attribution to list, which is empty for records without one; undefined for all. */
export const attributionOf = (
  given: string | undefined,
  without: "true" | "false" | undefined,
): string | undefined => (without === "true" ? "" : given);

/** Returns whether a refund names no id, for which the contract has a message. */
export const isBlankId = (body: unknown): boolean =>
  typeof body === "object" &&
  body !== null &&
  !Array.isArray(body) &&
  (!("id" in body) || body.id === null || body.id === "");
