import { z } from "zod";
import { count, metadata, recordId } from "../../modules/records/fields.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { registrationJson } from "../../modules/registrations/presentRegistration.rules.ts";
import {
  attribution,
  fractionalCount,
  idempotencyKey,
} from "../../modules/registrations/registrations.rules.ts";
import { firstDay, lastDay, pageLength, pageStart } from "../http/listPages.ts";
import { bodyObject, responseObject, optional, wholeNumber } from "../http/parseRequest.ts";
import { oneAttribution, reasonField, recordFields, withoutAttribution } from "./clientFields.ts";

/** How the standalone interface names trees and bottles; everything else is the same for both. */
export const KIND_NAMES = {
  tree: {
    noun: "tree",
    title: "Tree",
    plural: "trees",
    registerPath: "/plant/trees",
    refundPath: "/refund/trees",
    totalField: "total_planted_trees",
    monthField: "total_planted_trees_month",
    detailsField: "tree_details",
    refundedField: "refunded_trees",
  },
  bottle: {
    noun: "bottle",
    title: "Bottle",
    plural: "bottles",
    registerPath: "/rescue/plastic_bottles",
    refundPath: "/refund/plastic_bottles",
    totalField: "total_rescued_bottles",
    monthField: "total_rescued_bottles_month",
    detailsField: "bottle_details",
    refundedField: "refunded_bottles",
  },
} as const satisfies Record<Kind, Readonly<Record<string, string>>>;

/** Each pair is compared with every registration that a list reads. */
const MAXIMUM_METADATA_PAIRS = 20;

const filteredMetadata = metadata().refine(
  (pairs) => Object.keys(pairs).length <= MAXIMUM_METADATA_PAIRS,
  `must have at most ${MAXIMUM_METADATA_PAIRS} pairs`,
);

const metadataParameter = z
  .string()
  .meta({ examples: ['{"campaign":"spring"}'] })
  .transform((json, context): unknown => {
    try {
      return JSON.parse(json);
    } catch {
      context.addIssue({ code: "custom", message: "must be valid JSON" });
      return z.NEVER;
    }
  })
  .pipe(filteredMetadata)
  .describe(
    `A JSON object of at most ${MAXIMUM_METADATA_PAIRS} pairs, as JSON; each of them must match.`,
  );

export const listQuery = z
  .object({
    attribution_key: optional(attribution(), "Attribution to match.", "newsletter"),
    without_attribution: withoutAttribution(),
    id: optional(z.string(), "Id of one registration."),
    created_at: firstDay(),
    end_at: lastDay(),
    metadata: metadataParameter.optional(),
    // Names that no client sends by habit, because the contract has no pages here.
    first: pageLength(),
    after: pageStart(),
  })
  .refine(...oneAttribution("attribution_key"));

const units = (description: string) => wholeNumber().meta({ description, examples: [1200] });

const schemasOf = ({ noun, title, plural, ...names }: (typeof KIND_NAMES)[Kind]) => ({
  registerBody: bodyObject({
    count: count().meta({ description: `Number of ${plural}.`, examples: [3] }),
    fractional_count: optional(
      fractionalCount(),
      "Only for organizations with fractional counting; never billed. Defaults to count.",
    ),
    ...recordFields,
  }).meta({ id: `New${title}Registration` }),
  registerResponse: responseObject(`${title}Registrations`, {
    [names.totalField]: units(`All ${plural} registered and not refunded.`),
    [names.monthField]: units(
      "Those registered in the current calendar month, UTC, and not refunded.",
    ),
    [names.detailsField]: z.array(registrationJson),
  }),
  refundBody: bodyObject({
    id: recordId().describe(`Id of the ${noun} registration.`),
    reason: reasonField,
    count: optional(count(), `Number of ${plural} to refund; all remaining ones if omitted.`),
    idempotency_key: optional(
      idempotencyKey(),
      "Belongs to the refund that it is first used for: a later request with the same key returns that refund. " +
        "Empty means none.",
      "return-1001-1",
    ),
  }).meta({ id: `New${title}Refund` }),
  refundResponse: responseObject(`${title}Refund`, {
    [names.refundedField]: z
      .int()
      .min(1)
      .meta({ description: `Number of ${plural} in this refund.`, examples: [3] }),
    [names.totalField]: units(`All ${plural} registered and not refunded, after this refund.`),
    refund_details: z.array(registrationJson),
    refund_id: z.string().meta({ examples: ["refund-0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"] }),
  }),
});

/** Built once, since every request is parsed with them. */
export const SCHEMAS = { tree: schemasOf(KIND_NAMES.tree), bottle: schemasOf(KIND_NAMES.bottle) };
