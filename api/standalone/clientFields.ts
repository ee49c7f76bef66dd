import { longText, metadata } from "../../modules/records/fields.rules.ts";
import { attribution, idempotencyKey } from "../../modules/registrations/registrations.rules.ts";

/*
 * What clients may add to registrations and donations, and to their refunds.
 */

export const attributionField = () =>
  attribution()
    .optional()
    .meta({ description: "A tag to filter by.", examples: ["newsletter"] });

export const metadataField = () =>
  metadata()
    .optional()
    .meta({ description: "JSON object of at most 8 levels and 64 KiB, to filter by." });

export const idempotencyKeyField = () =>
  idempotencyKey().optional().meta({
    description:
      "A later request with the same key returns the original record. Empty is the same as omitted.",
  });

export const reasonField = () =>
  longText()
    .optional()
    .meta({ description: "Stored with the refund.", examples: ["order cancelled"] });

/** Returns whether a refund names no id, for which the contract has a message. */
export const isBlankId = (body: unknown): boolean =>
  typeof body === "object" &&
  body !== null &&
  !Array.isArray(body) &&
  (!("id" in body) || body.id === null || body.id === "");
