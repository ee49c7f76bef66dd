import type { z } from "zod";
import type { Caller } from "../../../db/accounts/apiKeys.ts";
import type { Kind, Owner } from "../../../domain/accounts/accounts.ts";
import { invalidRequest } from "../../../domain/errors.ts";
import {
  findFractionalCountProblem,
  fractionalCountOf,
} from "../../../domain/registrations/registrationFields.ts";
import type {
  Registration,
  RegistrationRequest,
  Totals,
} from "../../../domain/registrations/registrations.ts";
import { presentRegistration } from "../../../domain/registrations/presentRegistration.ts";
import { KIND_NAMES } from "./kinds.ts";
import type { SCHEMAS } from "./schemas.ts";

export const ownerOf = ({ accountId, mode }: Caller, kind: Kind): Owner => ({
  accountId,
  mode,
  kind,
});

/** Returns the registration that the body of a request asks for. */
export const newRegistrationOf = (
  caller: Caller,
  kind: Kind,
  body: z.output<(typeof SCHEMAS)[Kind]["registerBody"]>,
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
