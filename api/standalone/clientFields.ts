import { longText, metadata } from "../../modules/records/fields.rules.ts";
import { booleanParameter } from "../http/parseRequest.ts";
import { attribution, idempotencyKey } from "../../modules/registrations/registrations.rules.ts";

/*
 * What clients may add to registrations and donations, and to their refunds.
 */

/** Of new records. */
export const recordFields = {
  attribution: attribution()
    .optional()
    .meta({ description: "A tag to filter by.", examples: ["newsletter"] }),
  metadata: metadata()
    .optional()
    .describe("JSON object of at most 8 levels and 64 KiB, to filter by."),
  idempotency_key: idempotencyKey()
    .optional()
    .describe(
      "A later request with the same key returns the original record. Empty is the same as omitted.",
    ),
};

/** Of refunds. */
export const reasonField = longText()
  .optional()
  .meta({ description: "Stored with the refund.", examples: ["order cancelled"] });

/** The parameter of lists that finds records without an attribution: an empty attribution filter is no filter. */
export const withoutAttribution = () =>
  booleanParameter().optional().describe("`true` lists only records without an attribution.");

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
