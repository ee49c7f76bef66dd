import type { z } from "zod";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { refundIdOf } from "../../runtime/temporal/workflowIds.rules.ts";
import type { Registration } from "../../modules/registrations/registrations.rules.ts";
import { presentRegistration } from "../../modules/registrations/presentRegistration.rules.ts";
import type { RefundRequest } from "../../modules/registrations/refundRegistration.ts";
import { KIND_NAMES } from "./kinds.ts";
import type { SCHEMAS } from "./registrationSchemas.ts";

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

/**
 * Returns the response to a refund.
 * @param registration as it is after the refund
 */
export const presentRefunded = (
  kind: Kind,
  registration: Registration,
  refundedCount: number,
  total: number,
) => ({
  [KIND_NAMES[kind].refundedField]: refundedCount,
  [KIND_NAMES[kind].totalField]: total,
  refund_details: [presentRegistration(registration)],
  refund_id: refundIdOf(registration.id),
});
