import { z } from "zod";
import { count, date, metadata, recordId } from "../../modules/records/fields.rules.ts";
import type { Metadata } from "../../modules/records/fields.rules.ts";
import { registrationJson } from "../../modules/registrations/presentRegistration.rules.ts";
import {
  attribution,
  idempotencyKey,
} from "../../modules/registrations/registrationFields.rules.ts";
import { pageLength, pageStart } from "../http/listPages.ts";
import { bodyObject, queryObject } from "../http/parseRequest.ts";
import { isOneAttribution, withoutAttribution, reasonField } from "./clientFields.ts";
import { KIND_NAMES } from "./kinds.ts";
import { registerBody } from "./registerRequest.ts";
import type { KindNames } from "./kinds.ts";

const refundBody = ({ noun, title, plural }: KindNames) =>
  bodyObject({
    id: recordId().meta({ description: `Id of the ${noun} registration.` }),
    reason: reasonField(),
    count: count()
      .optional()
      .meta({ description: `Number of ${plural} to refund; all remaining ones if omitted.` }),
    idempotency_key: idempotencyKey()
      .optional()
      .meta({
        description:
          "Belongs to the refund that it is first used for: a later request with the same key returns that refund. " +
          "Empty means none.",
        examples: ["return-1001-1"],
      }),
  }).meta({ id: `New${title}Refund` });

const parseJson = (json: string): { readonly value: unknown } | null => {
  try {
    return { value: JSON.parse(json) };
  } catch {
    return null;
  }
};

/** Each pair is compared with every registration that a list reads. */
const MAXIMUM_METADATA_PAIRS = 20;

const METADATA = metadata();

const metadataParameter = z
  .string()
  .meta({ examples: ['{"campaign":"spring"}'] })
  .transform((json, context): Metadata => {
    const parsed = parseJson(json);
    const checked = parsed && METADATA.safeParse(parsed.value);
    if (checked?.success === true) {
      if (Object.keys(checked.data).length <= MAXIMUM_METADATA_PAIRS) {
        return checked.data;
      }
      context.addIssue({
        code: "custom",
        message: `must have at most ${MAXIMUM_METADATA_PAIRS} pairs`,
      });
      return z.NEVER;
    }
    const issues = checked?.error.issues ?? [{ message: "must be valid JSON", path: [] }];
    for (const { message, path } of issues) {
      context.addIssue({ code: "custom", message, path: [...path] });
    }
    return z.NEVER;
  })
  .meta({
    description: `A JSON object of at most ${MAXIMUM_METADATA_PAIRS} pairs, as JSON; each of them must match.`,
  });

export const listQuery = queryObject({
  attribution_key: attribution()
    .optional()
    .meta({ description: "Attribution to match.", examples: ["newsletter"] }),
  without_attribution: withoutAttribution(),
  id: z.string().optional().meta({ description: "Id of one registration." }),
  created_at: date()
    .optional()
    .meta({ description: "First day, UTC.", examples: ["2025-06-01"] }),
  end_at: date()
    .optional()
    .meta({ description: "Last day, UTC.", examples: ["2025-06-30"] }),
  metadata: metadataParameter.optional(),
  // Names that no client sends by habit, because the contract has no pages here.
  first: pageLength(),
  after: pageStart(),
}).refine(
  ({ attribution_key: given, without_attribution }) => isOneAttribution(given, without_attribution),
  {
    path: ["without_attribution"],
    error: "excludes attribution_key",
  },
);

const total = (description: string) =>
  z
    .int()
    .min(0)
    .meta({ description, examples: [1200] });

const registerResponse = ({ title, plural, totalField, monthField, detailsField }: KindNames) =>
  z
    .strictObject({
      [totalField]: total(`All ${plural} registered and not refunded.`),
      [monthField]: total("Those registered in the current calendar month, UTC, and not refunded."),
      [detailsField]: z.array(registrationJson),
    })
    .meta({ id: `${title}Registrations` });

const refundResponse = ({ title, plural, refundedField, totalField }: KindNames) =>
  z
    .strictObject({
      [refundedField]: z
        .int()
        .min(1)
        .meta({ description: `Number of ${plural} in this refund.`, examples: [3] }),
      [totalField]: total(`All ${plural} registered and not refunded, after this refund.`),
      refund_details: z.array(registrationJson),
      refund_id: z.string().meta({ examples: ["refund-0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"] }),
    })
    .meta({ id: `${title}Refund` });

const schemasOf = (names: KindNames) => ({
  registerBody: registerBody(names),
  registerResponse: registerResponse(names),
  refundBody: refundBody(names),
  refundResponse: refundResponse(names),
});

/** Built once, since every request is parsed with them. */
export const SCHEMAS = { tree: schemasOf(KIND_NAMES.tree), bottle: schemasOf(KIND_NAMES.bottle) };
