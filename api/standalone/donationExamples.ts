export const TAG = "charities";

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22";

const charity = {
  nonprofit_id: "irs_530196605",
  name: "American Red Cross",
  ein: "53-0196605",
};

const donation = {
  id: ID,
  amount_cents: 500,
  currency: "USD" as const,
  ein: charity.ein,
  nonprofit_id: charity.nonprofit_id,
  charity_name: charity.name,
  created_at: "2025-06-01T12:00:00.000Z",
  idempotency_key: "order-1001",
  attribution: "newsletter",
  metadata: { campaign: "spring" },
  refunded: false,
};

/** The examples in the API description. */
export const EXAMPLES = {
  donate: {
    body: {
      amount_cents: 500,
      ein: charity.ein,
      attribution: "newsletter",
      metadata: { campaign: "spring" },
      idempotency_key: "order-1001",
    },
    response: {
      donation_id: ID,
      amount_cents: 500,
      charity_name: charity.name,
      ein: charity.ein,
      nonprofit_id: charity.nonprofit_id,
      total_donations: 12,
      donation_details: [donation],
    },
  },
  list: {
    response: { total_items: 1, total_pages: 1, page: 1, page_size: 20, donations: [donation] },
  },
  subscribe: { response: { success: true, message: "the donation subscription is active" } },
  refund: {
    body: { id: ID, reason: "order cancelled" },
    response: {
      refunded_amount_cents: 500,
      total_donations: 11,
      refund_details: [{ ...donation, refunded: true }],
      refund_id: `refund-${ID}`,
    },
  },
};
