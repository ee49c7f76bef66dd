import type { z } from "zod";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import type { Kind, Owner } from "../../modules/records/owner.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { count } from "../../modules/records/fields.rules.ts";
import {
  findFractionalCountProblem,
  fractionalCount,
  fractionalCountOf,
} from "../../modules/registrations/registrations.rules.ts";
import type {
  Registration,
  RegistrationRequest,
  Totals,
} from "../../modules/registrations/registrations.rules.ts";
import { presentRegistration } from "../../modules/registrations/presentRegistration.rules.ts";
import { bodyObject } from "../http/parseRequest.ts";
import { attributionField, idempotencyKeyField, metadataField } from "./clientFields.ts";
import { KIND_NAMES } from "./kinds.ts";
import type { KindNames } from "./kinds.ts";

export const ownerOf = ({ accountId, mode }: Caller, kind: Kind): Owner => ({
  accountId,
  mode,
  kind,
});

/** The body of a request. */
export const registerBody = ({ title, plural }: KindNames) =>
  bodyObject({
    count: count().meta({ description: `Number of ${plural}.`, examples: [3] }),
    fractional_count: fractionalCount().optional().meta({
      description:
        "Only for organizations with fractional counting; never billed. Defaults to count.",
    }),
    attribution: attributionField(),
    metadata: metadataField(),
    idempotency_key: idempotencyKeyField(),
  }).meta({ id: `New${title}Registration` });

/** Returns the registration that the body of a request asks for. */
export const newRegistrationOf = (
  caller: Caller,
  kind: Kind,
  body: z.output<ReturnType<typeof registerBody>>,
): RegistrationRequest => {
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
export const presentRegistered = (kind: Kind, registration: Registration, totals: Totals) => {
  const names = KIND_NAMES[kind];
  return {
    [names.totalField]: totals.all,
    [names.monthField]: totals.month,
    [names.detailsField]: [presentRegistration(registration)],
  };
};
