import type { Kind } from "../../../domain/accounts/accounts.ts";
import { KIND_NAMES } from "./kinds.ts";

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

const registration = {
  id: ID,
  count: 3,
  fractional_count: 0,
  created_at: "2025-06-01T12:00:00.000Z",
  idempotency_key: "order-1001",
  metadata: { campaign: "spring" },
  attribution: "newsletter",
  refunded: false,
  refunded_count: 0,
};

const examplesOf = (kind: Kind) => {
  const { totalField, monthField, detailsField, refundedField } = KIND_NAMES[kind];
  const listed = { [totalField]: 1200, [monthField]: 40, [detailsField]: [registration] };
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
      body: { id: ID, reason: "order cancelled", idempotency_key: "return-1001-1" },
      response: {
        [refundedField]: 3,
        [totalField]: 1197,
        refund_details: [{ ...registration, refunded: true, refunded_count: 3 }],
        refund_id: `refund-${ID}`,
      },
    },
  };
};

/** Request and response bodies for the API description. */
export const EXAMPLES = { tree: examplesOf("tree"), bottle: examplesOf("bottle") };
