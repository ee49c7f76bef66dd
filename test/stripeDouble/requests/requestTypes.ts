import type { Stripe } from "stripe";

type Item = Stripe.SubscriptionUpdateParams.Item;

/**
 * The parameters that the double accepts, by call: the parts of the SDK's own types that it models. It rejects all other
 * parameters instead of ignoring them. `generateRequestSchemas.ts` turns this type into `requestSchemas.json`.
 */
export type RequestTypes = {
  // oxlint-disable-next-line typescript/no-generated-empty-object-type -- a retrieval has no parameters
  nothing: Omit<Stripe.Billing.MeterRetrieveParams, "expand">;
  customerCreate: Pick<Stripe.CustomerCreateParams, "name" | "email" | "metadata">;
  meterCreate: Omit<Stripe.Billing.MeterCreateParams, "expand">;
  meterList: Omit<Stripe.Billing.MeterListParams, "expand">;
  meterEventCreate: Omit<Stripe.Billing.MeterEventCreateParams, "expand">;
  meterListEventSummaries: Omit<Stripe.Billing.MeterListEventSummariesParams, "expand">;
  priceCreate: Pick<
    Stripe.PriceCreateParams,
    "currency" | "unit_amount" | "recurring" | "nickname" | "lookup_key" | "metadata"
  > & { product_data?: Pick<Stripe.PriceCreateParams.ProductData, "name"> };
  subscriptionCreate: Pick<
    Stripe.SubscriptionCreateParams,
    | "customer"
    | "billing_cycle_anchor"
    | "proration_behavior"
    | "payment_behavior"
    | "metadata"
    | "trial_end"
    | "trial_period_days"
  > & { items: Array<Pick<Item, "price" | "quantity" | "metadata">> };
  subscriptionUpdate: Pick<
    Stripe.SubscriptionUpdateParams,
    | "proration_behavior"
    | "payment_behavior"
    | "metadata"
    | "pause_collection"
    | "trial_end"
    | "cancel_at_period_end"
  > & { items?: Array<Pick<Item, "id" | "price" | "quantity" | "metadata">> };
  subscriptionList: Pick<
    Stripe.SubscriptionListParams,
    "customer" | "status" | "limit" | "starting_after" | "ending_before"
  >;
  subscriptionCancel: Pick<Stripe.SubscriptionCancelParams, "invoice_now" | "prorate">;
  invoiceList: Pick<
    Stripe.InvoiceListParams,
    | "customer"
    | "subscription"
    | "status"
    | "created"
    | "limit"
    | "starting_after"
    | "ending_before"
  >;
  invoiceListLines: Omit<Stripe.InvoiceListLineItemsParams, "expand">;
  subscriptionItemCreate: Pick<
    Stripe.SubscriptionItemCreateParams,
    "subscription" | "price" | "quantity" | "metadata" | "proration_behavior" | "payment_behavior"
  >;
  subscriptionItemUpdate: Pick<
    Stripe.SubscriptionItemUpdateParams,
    "quantity" | "metadata" | "proration_behavior" | "payment_behavior"
  >;
  subscriptionItemDelete: Pick<Stripe.SubscriptionItemDeleteParams, "proration_behavior">;
  subscriptionItemList: Pick<
    Stripe.SubscriptionItemListParams,
    "subscription" | "limit" | "starting_after" | "ending_before"
  >;
};
