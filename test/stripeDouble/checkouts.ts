import type { Requests } from "./requests.ts";
import { findBy, pageOf } from "./responses.ts";
import type { State, StoredCheckout } from "./state.ts";

/** How long a session can be paid. */
const LIFETIME_SECONDS = 24 * 3600;

const present = ({ clock }: State, session: StoredCheckout) => {
  const isExpired = clock.now() >= session.expires_at;
  const status = session.payment_intent !== null ? "complete" : isExpired ? "expired" : "open";
  const url = status === "open" ? `https://checkout.stripe.com/c/pay/${session.id}` : null;
  return { ...session, object: "checkout.session", mode: "payment", status, url };
};

export const createCheckout = (state: State, request: Requests["checkoutCreate"]): object => {
  const [{ quantity, price_data: price }] = request.line_items;
  const created = state.clock.now();
  const session: StoredCheckout = {
    id: state.nextId("cs_test"),
    created,
    expires_at: created + LIFETIME_SECONDS,
    amount_total: quantity * price.unit_amount,
    currency: price.currency,
    client_reference_id: request.client_reference_id ?? null,
    metadata: request.metadata ?? {},
    payment_intent: null,
    payment_status: "unpaid",
  };
  state.checkouts.set(session.id, session);
  return present(state, session);
};

export const retrieveCheckout = (state: State, id: string): object =>
  present(state, findBy(state.checkouts, "checkout.session", id, 404));

/** Lists sessions, newest first. */
export const listCheckouts = (
  state: State,
  { status, created, ...page }: Requests["checkoutList"],
): object =>
  pageOf(
    "/v1/checkout/sessions",
    [...state.checkouts.values()]
      .toReversed()
      .filter((session) => session.created >= (created?.gte ?? 0))
      .map((session) => present(state, session))
      .filter((session) => (status ?? session.status) === session.status),
    page,
  );

/**
 * Completes a session as its customer does.
 * @param isDelayed whether the payment takes days, as a bank debit does
 * @returns the type of the event that Stripe sends
 */
export const payCheckout = (state: State, id: string, isDelayed: boolean): string => {
  const session = findBy(state.checkouts, "checkout.session", id, 404);
  const { status } = present(state, session);
  if (status !== "open") {
    throw new Error(`The Checkout session ${id} is ${status}.`);
  }
  session.payment_intent = state.nextId("pi");
  session.payment_status = isDelayed ? "unpaid" : "paid";
  return "checkout.session.completed";
};

/** Ends a delayed payment, and returns the type of the event that Stripe sends. */
export const settleCheckout = (state: State, id: string, succeeds: boolean): string => {
  const session = findBy(state.checkouts, "checkout.session", id, 404);
  if (session.payment_intent === null || session.payment_status === "paid") {
    throw new Error(`The Checkout session ${id} has no delayed payment.`);
  }
  session.payment_status = succeeds ? "paid" : "unpaid";
  return `checkout.session.async_payment_${succeeds ? "succeeded" : "failed"}`;
};
