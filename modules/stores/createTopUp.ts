import { hash } from "node:crypto";
import type { BillingContext } from "../billing/context.ts";
import { readDeployment } from "../billing/deployment.sql.ts";
import { askForClient } from "../billing/processor.ts";
import { MINUTE_MS } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { writePrepared } from "./createStoreWriter.ts";
import type { StoreContext } from "./createStoreWriter.ts";
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
const stripeKeyOf = ({ accountId, idempotency }: StoreWrite, deploymentId: string, now: Date) => {
  if (idempotency === null) {
    return null;
  }
  const minute = Math.floor(now.getTime() / MINUTE_MS);
  const { key, requestHash } = idempotency;
  const parts = JSON.stringify([deploymentId, accountId, key, requestHash, minute]);
  return `topup-${hash("sha256", parts)}`;
};

/**
 * Creates a payment page for a store's balance. Until it is paid, nothing but the response to a request with a key is
 * stored, so a page whose response is lost, or loses to one with the same key, expires unseen.
 * @throws DomainError request_invalid for a test key, without Stripe, if Stripe refuses a value, or if the idempotency key
 *   was used for another request
 * @throws UnavailableError if Stripe cannot be used
 */
export const createTopUp = (
  context: BillingContext & StoreContext,
  write: StoreWrite,
  { amountCents, successUrl, cancelUrl }: NewTopUp,
  present: (checkout: { readonly id: string; readonly url: string }) => object,
): Promise<StoreResponse> =>
  writePrepared(context, write, async ({ id: storeId, domain }) => {
    const { stripe } = context.billing;
    if (write.mode === "test") {
      throw invalidRequest("test keys spend nothing, so they have no balance to top up");
    }
    if (stripe === null) {
      throw invalidRequest("payments are not set up here; ask the operator to top up the balance");
    }
    const { id: deploymentId } = await readDeployment(context.db);
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
          idempotencyKey: stripeKeyOf(write, deploymentId, context.clock.now()),
        },
        signal,
      ),
    );
    const responseBody = JSON.stringify(present(checkout));
    return { ...write, responseBody, kind: "topup", recordId: null };
  });
