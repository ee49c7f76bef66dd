import { hash } from "node:crypto";
import type { BillingContext } from "../billing/context.ts";
import { readDeployment } from "../billing/deployment.sql.ts";
import { askForClient } from "../billing/processor.ts";
import { MINUTE_MS } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { findEarlierResponse } from "./findEarlierResponse.ts";
import { getStore } from "./manageStores.ts";
import { isKeyConflict, recordStoreWrites } from "./storeWrites.sql.ts";
import type { StoreResponse, StoreWrite } from "./storeWrites.rules.ts";

/** A payment that a store's merchant wants to make. Null leads to the shop's own page. */
export type NewTopUp = {
  readonly amountCents: number;
  readonly successUrl: string | null;
  readonly cancelUrl: string | null;
};

/**
 * Returns the idempotency key of a write at Stripe, so that repeated requests of the same minute get the same page. Not for
 * longer, because Stripe also repeats the response of a request that failed.
 */
const stripeKeyOf = (
  { accountId, idempotency }: StoreWrite,
  deploymentId: string,
  now: Date,
): string | null => {
  if (idempotency === null) {
    return null;
  }
  const minute = Math.floor(now.getTime() / MINUTE_MS);
  const { key, requestHash } = idempotency;
  const parts = JSON.stringify([deploymentId, accountId, key, requestHash, minute]);
  return `topup-${hash("sha256", parts)}`;
};

/** Stores the response of a write with a key, unless another one was stored meanwhile: then that one is returned. */
const storeResponse = async (
  { db, clock }: BillingContext,
  write: StoreWrite,
): Promise<StoreResponse> => {
  const response = { responseBody: write.responseBody, recordId: null };
  if (write.idempotency === null) {
    return { ...response, replayed: false };
  }
  const createdAt = clock.now().toISOString();
  const stored = { ...write, ...write.idempotency, ...response, createdAt };
  try {
    await db.transaction((transaction) => recordStoreWrites(transaction, { responses: [stored] }));
    return { ...response, replayed: false };
  } catch (error) {
    const earlier = isKeyConflict(error) ? await findEarlierResponse(db, write) : null;
    if (earlier) {
      return earlier;
    }
    throw error;
  }
};

/**
 * Creates a payment page for a store's balance. Until it is paid, nothing but the response is stored, so a page whose
 * response is lost, or loses to one with the same key, expires unseen.
 * @param present builds the body of the response
 * @throws DomainError request_invalid for a test key, without Stripe, if Stripe refuses a value, or if the idempotency key
 *   was used for another request
 * @throws UnavailableError if Stripe cannot be used
 */
export const createTopUp = async (
  context: BillingContext,
  write: StoreWrite,
  { amountCents, successUrl, cancelUrl }: NewTopUp,
  present: (checkout: { readonly id: string; readonly url: string }) => object,
): Promise<StoreResponse> => {
  const { db, clock, billing } = context;
  if (write.mode === "test") {
    throw invalidRequest("test keys spend nothing, so they have no balance to top up");
  }
  const earlier = await findEarlierResponse(db, write);
  if (earlier) {
    return earlier;
  }
  const { stripe } = billing;
  if (stripe === null) {
    throw invalidRequest("payments are not set up here; ask the operator to top up the balance");
  }
  const { id: storeId, domain } = await getStore(db, write.accountId);
  const { id: deploymentId } = await readDeployment(db);
  const shop = `https://${domain}/`;
  const checkout = await askForClient((signal) =>
    stripe.createCheckout(
      {
        deploymentId,
        storeId,
        description: `Top-up of ${domain}`,
        amountCents,
        successUrl: successUrl ?? shop,
        cancelUrl: cancelUrl ?? shop,
        idempotencyKey: stripeKeyOf(write, deploymentId, clock.now()),
      },
      signal,
    ),
  );
  return storeResponse(context, { ...write, responseBody: JSON.stringify(present(checkout)) });
};
