import { z } from "zod";
import { count, date, metadata, recordId } from "../../modules/records/fields.rules.ts";
import {
  registrationJson,
  presentRegistration,
} from "../../modules/registrations/presentRegistration.rules.ts";
import {
  findFractionalCountProblem,
  fractionalCount,
  fractionalCountOf,
  attribution,
  idempotencyKey,
} from "../../modules/registrations/registrations.rules.ts";
import { pageLength, pageStart, rangeOfDays } from "../http/listPages.ts";
import { bodyObject, queryObject } from "../http/parseRequest.ts";
import {
  isOneAttribution,
  withoutAttribution,
  reasonField,
  recordFields,
  attributionOf,
} from "./clientFields.ts";
import { KIND_NAMES } from "./standaloneKinds.ts";
import type { KindNames } from "./standaloneKinds.ts";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import type { Kind, Owner } from "../../modules/records/owner.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type {
  Registration,
  NewRegistration,
  Totals,
  RegistrationFilter,
} from "../../modules/registrations/registrations.rules.ts";
import type { Refunded } from "../../modules/registrations/refundRegistration.ts";
import type { RefundRequest } from "../../modules/registrations/writeRefunds.ts";

export const ownerOf = ({ accountId, mode }: Caller, kind: Kind): Owner => ({
  accountId,
  mode,
  kind,
});

/** The body of a request. */
const registerBody = ({ title, plural }: KindNames) =>
  bodyObject({
    count: count().meta({ description: `Number of ${plural}.`, examples: [3] }),
    fractional_count: fractionalCount().optional().meta({
      description:
        "Only for organizations with fractional counting; never billed. Defaults to count.",
    }),
    ...recordFields,
  }).meta({ id: `New${title}Registration` });

/** Returns the registration that the body of a request asks for. */
export const newRegistrationOf = (
  caller: Caller,
  kind: Kind,
  body: z.output<ReturnType<typeof registerBody>>,
): NewRegistration => {
  const problem = findFractionalCountProblem(body.fractional_count, caller);
  return {
    ...ownerOf(caller, kind),
    count: body.count,
    fractionalCount: fractionalCountOf(body.fractional_count, body.count, caller),
    idempotencyKey: body.idempotency_key ?? null,
    attribution: body.attribution ?? "",
    metadata: body.metadata ?? {},
    isLimited: caller.isLimited,
    // The organization may have counted fractions when it sent the request for the first time.
    refusal: problem === null ? null : invalidRequest(problem),
  };
};

/** Returns the response to a registration. */
export const presentRegistered = (
  kind: Kind,
  { registration, totals }: { readonly registration: Registration; readonly totals: Totals },
) => {
  const names = KIND_NAMES[kind];
  return {
    [names.totalField]: totals.all,
    [names.monthField]: totals.month,
    [names.detailsField]: [presentRegistration(registration)],
  };
};

const refundBody = ({ noun, title, plural }: KindNames) =>
  bodyObject({
    id: recordId().meta({ description: `Id of the ${noun} registration.` }),
    reason: reasonField,
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

const units = (description: string) =>
  z
    .int()
    .min(0)
    .meta({ description, examples: [1200] });

const registerResponse = ({ title, plural, totalField, monthField, detailsField }: KindNames) =>
  z
    .strictObject({
      [totalField]: units(`All ${plural} registered and not refunded.`),
      [monthField]: units("Those registered in the current calendar month, UTC, and not refunded."),
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
      [totalField]: units(`All ${plural} registered and not refunded, after this refund.`),
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

/** The contract's message for a refund that names no registration. */
export const idRequiredMessage = (kind: Kind): string => `${KIND_NAMES[kind].noun} id is required`;

/** Returns the refund that the body of a request asks for. */
export const refundRequestOf = (
  body: z.output<(typeof SCHEMAS)[Kind]["refundBody"]>,
): RefundRequest => ({
  id: body.id,
  count: body.count ?? null,
  reason: body.reason ?? null,
  idempotencyKey: body.idempotency_key ?? null,
});

/** Returns the response to a refund. */
export const presentRefunded = (
  kind: Kind,
  { registration, refundedCount, total, refundId }: Refunded,
) => ({
  [KIND_NAMES[kind].refundedField]: refundedCount,
  [KIND_NAMES[kind].totalField]: total,
  refund_details: [presentRegistration(registration)],
  refund_id: refundId,
});

/** Converts a list's query parameters. */
export const listFilter = (query: z.output<typeof listQuery>): RegistrationFilter => ({
  id: query.id,
  attribution: attributionOf(query.attribution_key, query.without_attribution),
  metadata: query.metadata,
  ...rangeOfDays(query.created_at, query.end_at),
});
