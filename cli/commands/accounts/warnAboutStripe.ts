import type { Context } from "../../context.ts";
import { describeError } from "../../exitCodes.ts";
import { say } from "../../io.ts";

/**
 * Warns an operator about settings with which Stripe never bills an organization: Stripe rejects usage without a
 * customer, and accepts but never invoices usage that no item of the subscription prices.
 */
export const warnAboutStripe = async (
  { io, connections }: Context,
  customerId: string | null,
  subscriptionId: string | null,
): Promise<void> => {
  const stripe = connections.stripe();
  if (stripe === null) {
    return;
  }
  if (customerId === null) {
    say(
      io,
      "Warning: The organization has no Stripe customer. Its live usage is rejected until it has one.",
    );
  }
  try {
    const customerProblem = customerId === null ? null : await stripe.inspectCustomer(customerId);
    if (customerProblem !== null) {
      say(io, `Warning: ${customerProblem} The organization's live usage is rejected.`);
    }
    if (subscriptionId === null) {
      return;
    }
    for (const problem of await stripe.inspectSubscription(customerId, subscriptionId)) {
      say(io, `Warning: ${problem}`);
    }
  } catch (error) {
    say(
      io,
      `Warning: Stripe could not check the customer and the subscription: ${describeError(error)}`,
    );
  }
};
