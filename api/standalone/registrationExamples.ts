import type { Kind } from "../../modules/records/owner.rules.ts";
import { REGISTRATION_EXAMPLE } from "../../modules/registrations/presentRegistration.rules.ts";
import { KIND_NAMES } from "./kinds.ts";

const examplesOf = (kind: Kind) => {
  const { totalField, monthField, detailsField, refundedField } = KIND_NAMES[kind];
  const listed = { [totalField]: 1200, [monthField]: 40, [detailsField]: [REGISTRATION_EXAMPLE] };
  return {
    register: {
      body: {
        count: 3,
        attribution: "newsletter",
        metadata: { campaign: "spring" },
        idempotency_key: "order-1001",
      },
      response: listed,
    },
    list: { response: listed },
    refund: {
      body: {
        id: REGISTRATION_EXAMPLE.id,
        reason: "order cancelled",
        idempotency_key: "return-1001-1",
      },
      response: {
        [refundedField]: 3,
        [totalField]: 1197,
        refund_details: [{ ...REGISTRATION_EXAMPLE, refunded: true, refunded_count: 3 }],
        refund_id: `refund-${REGISTRATION_EXAMPLE.id}`,
      },
    },
  };
};

/** Request and response bodies for the API description. */
export const EXAMPLES = { tree: examplesOf("tree"), bottle: examplesOf("bottle") };
