import type { Account } from "../../../db/accounts/accounts.ts";
import { readDeployment } from "../../../db/billing/deployment.ts";
import { KINDS } from "../../../domain/accounts/accounts.ts";
import { refreshSubscription } from "../../../services/billing/processorEvents/refreshSubscription.ts";
import type { CliContext } from "../../context.ts";
import { describeError } from "../../exitCodes.ts";
import { say } from "../../io.ts";

const TIMEOUT_MS = 20_000;

type Organization = Pick<Account, "id" | "stripeCustomerId" | "stripeSubscriptionId">;

/** Stores what Stripe has of the subscription. Until the first worker has recorded who bills, nothing depends on it. */
const refresh = async ({ connections, clock }: CliContext, accountId: string): Promise<void> => {
  const db = await connections.database();
  const { processor } = await readDeployment(db);
  if (processor?.name === "stripe") {
    await refreshSubscription(
      { db, clock, billing: await connections.billing() },
      accountId,
      AbortSignal.timeout(TIMEOUT_MS),
    );
  }
};

/**
 * Reads an organization's customer and subscription at Stripe, if Stripe is switched on. The state of the subscription is
 * stored, so that policies apply immediately. Settings with which Stripe never bills the organization are warned about:
 * Stripe rejects usage without a customer, and accepts but never invoices usage that no item of the subscription prices.
 * An outage of Stripe is a warning, too.
 */
export const checkAtStripe = async (
  context: CliContext,
  organization: Organization,
): Promise<void> => {
  const { io, connections } = context;
  const { id, stripeCustomerId: customerId, stripeSubscriptionId: subscriptionId } = organization;
  const stripe = await connections.stripe();
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
    for (const problem of await stripe.inspectSubscription(customerId, subscriptionId, KINDS)) {
      say(io, `Warning: ${problem}`);
    }
    await refresh(context, id);
  } catch (error) {
    say(
      io,
      `Warning: Stripe could not check the customer and the subscription: ${describeError(error)} The settings are stored. Webhooks and the nightly sweep read the subscription later.`,
    );
  }
};
