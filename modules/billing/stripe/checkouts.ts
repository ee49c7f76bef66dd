import { Stripe } from "stripe";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { ProcessorEventUnreadableError } from "../processor.ts";
import type { NewCheckout } from "../processor.ts";
import { idOf, unlessMissing } from "./subscriptions.ts";

/** The key of the metadata that tells our sessions from those of other programs. Its value is the deployment's id. */
const DEPLOYMENT_KEY = "impact_deployment";

/** The fields of our request that Stripe's parameters have their values from. */
const FIELDS: Readonly<Record<string, string>> = {
  success_url: "success_url",
  cancel_url: "cancel_url",
  line_items: "amount_dollars",
};

/** Returns the field whose value Stripe refuses, if the client chose it. */
const findRefusedField = (error: unknown): string | undefined => {
  if (!(error instanceof Stripe.errors.StripeInvalidRequestError)) {
    return undefined;
  }
  return error.code?.startsWith("amount_too_")
    ? "amount_dollars"
    : FIELDS[error.param?.split("[", 1)[0] ?? ""];
};

/** Stripe rejects a request while another one with the same idempotency key runs. */
const MAXIMUM_RETRIES = 2;

/**
 * Creates a page where a store's merchant can pay within 24 hours. Nothing needs to undo it: one that nobody pays expires.
 * @returns its id and its URL
 * @throws DomainError request_invalid if Stripe refuses a value of the client
 */
export const createCheckout = async (stripe: Stripe, checkout: NewCheckout) => {
  const { description, amountCents, idempotencyKey } = checkout;
  const price = { currency: "usd", unit_amount: amountCents, product_data: { name: description } };
  const metadata = { [DEPLOYMENT_KEY]: checkout.deploymentId };
  try {
    const { id, url } = await stripe.checkout.sessions.create(
      {
        mode: "payment",
        client_reference_id: checkout.storeId,
        metadata,
        line_items: [{ quantity: 1, price_data: price }],
        payment_intent_data: { description, metadata },
        success_url: checkout.successUrl,
        cancel_url: checkout.cancelUrl,
      },
      idempotencyKey === null ? {} : { idempotencyKey, maxNetworkRetries: MAXIMUM_RETRIES },
    );
    if (url === null) {
      throw new Error(`Stripe's Checkout session ${id} has no URL.`);
    }
    return { id, url };
  } catch (error) {
    const field = findRefusedField(error);
    throw field !== undefined && error instanceof Error
      ? invalidRequest(`${field}: refused by Stripe: ${error.message}`, { cause: error })
      : error;
  }
};

const presentSession = (session: Stripe.Checkout.Session) => ({
  id: session.id,
  /** The deployment that created it; null if it was another program. */
  deploymentId: session.metadata?.[DEPLOYMENT_KEY] ?? null,
  storeId: session.client_reference_id,
  isPaid: session.payment_status === "paid",
  /** What was paid, in the currency's smallest unit. */
  amountCents: session.amount_total,
  currency: session.currency,
  paymentId: session.payment_intent && idOf(session.payment_intent),
});

/** A Checkout session, of this deployment or of any other program. */
export type CheckoutSession = Readonly<ReturnType<typeof presentSession>>;

/** @throws ProcessorEventUnreadableError if Stripe has no such session */
export const readCheckout = async (stripe: Stripe, sessionId: string): Promise<CheckoutSession> => {
  const session = await unlessMissing(stripe.checkout.sessions.retrieve(sessionId));
  if (session === null) {
    throw new ProcessorEventUnreadableError(`Stripe has no Checkout session ${sessionId}.`);
  }
  return presentSession(session);
};

export const listPaidCheckouts = async (stripe: Stripe, deploymentId: string, since: number) => {
  const found: CheckoutSession[] = [];
  const complete = { status: "complete", created: { gte: since }, limit: 100 } as const;
  for await (const session of stripe.checkout.sessions.list(complete)) {
    const presented = presentSession(session);
    if (presented.isPaid && presented.deploymentId === deploymentId) {
      found.push(presented);
    }
  }
  return found;
};
