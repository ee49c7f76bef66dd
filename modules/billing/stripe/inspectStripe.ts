import { Stripe } from "stripe";
import { createStripeClient, readStripeAccount } from "./createStripeClient.ts";
import type { StripeClientOptions } from "./createStripeClient.ts";
import { findMeters, inspectMeters } from "./meters.ts";
import { KINDS } from "../../records/owner.rules.ts";
import { readSubscriptionState, unlessMissing } from "./subscriptions.ts";
import { listSubscriptionProblems } from "../subscriptions.rules.ts";

/** A list of what an unknown customer has is a 400. */
const NOT_FOUND = new Set([400, 404]);

/** Reads one of everything that the service reads. What does not exist shows that the key may read it. */
const READS: readonly ((stripe: Stripe) => Promise<unknown>)[] = [
  (stripe) => stripe.customers.retrieve("cus_none"),
  (stripe) => stripe.subscriptions.retrieve("sub_none"),
  (stripe) => stripe.prices.retrieve("price_none"),
  (stripe) => stripe.invoices.list({ customer: "cus_none", limit: 1 }),
  (stripe) => stripe.checkout.sessions.retrieve("cs_none"),
  (stripe) => stripe.v2.core.events.retrieve("evt_none"),
];

/** Returns the message of a refusal; null for what does not exist. */
const refusalOf = (error: unknown): string | null => {
  if (error instanceof Stripe.errors.StripePermissionError) {
    return error.message;
  }
  if (error instanceof Stripe.errors.StripeError && NOT_FOUND.has(error.statusCode ?? 0)) {
    return null;
  }
  throw error;
};

/** Reads the configuration at Stripe; problems are sentences. Each call throws if Stripe cannot be reached or refuses the key. */
export const createStripeInspector = (options: StripeClientOptions) => {
  const { stripe } = createStripeClient(options);
  return {
    readAccount: () => readStripeAccount(stripe, options.secretKey),
    /** Returns what prevents usage from being sent. */
    inspectMeters: (cell: string | null) => inspectMeters(stripe, cell),
    /** Returns what the key may not read, although it is needed. */
    inspectRights: async (): Promise<readonly string[]> => {
      const read = READS.map((each) => each(stripe).then(() => null, refusalOf));
      return (await Promise.all(read)).filter((problem) => problem !== null);
    },
    /** Returns how long after its period a customer's newest invoice was finalized, in whole hours; null if none was. */
    readGraceHours: async (customer: string): Promise<number | null> => {
      const invoices = await unlessMissing(stripe.invoices.list({ customer, limit: 100 }));
      const [newest] = (invoices?.data ?? []).flatMap(
        ({ billing_reason: reason, created, status_transitions: { finalized_at: finalizedAt } }) =>
          reason === "subscription_cycle" && finalizedAt !== null ? [finalizedAt - created] : [],
      );
      return newest === undefined ? null : Math.round(newest / 3600);
    },
    /** Returns why usage of a customer is refused: Stripe does not know it, or it was deleted. Null if nothing is wrong. */
    inspectCustomer: async (customerId: string): Promise<string | null> => {
      const customer = await unlessMissing(stripe.customers.retrieve(customerId));
      if (customer?.deleted === true) {
        return `Stripe's customer ${customerId} was deleted.`;
      }
      return customer === null ? `No such customer: '${customerId}'.` : null;
    },
    /**
     * Returns what keeps a customer's usage off its invoices: a subscription that is not active, belongs to another customer,
     * or has no price on the meter of one of the kinds, or prices with different periods.
     */
    inspectSubscription: async (cell: string | null, customerId: string, id: string) => {
      const meters = await findMeters(stripe, cell);
      const usedKinds = KINDS.filter((kind) => meters[kind] !== null);
      const state = await readSubscriptionState(stripe, id, meters, null);
      const { customerId: owner, meteredKinds, periods } = state;
      const unclear = meteredKinds.filter((kind) => periods[kind] === null);
      const problems = [
        ...((owner ?? customerId) === customerId
          ? []
          : [`belongs to the customer ${owner}, not ${customerId}`]),
        ...listSubscriptionProblems({ ...state, usedKinds, lostDonationItems: false }).map(
          ({ text }) => text,
        ),
        ...unclear.map((kind) => `has no single current period of ${kind}s`),
      ];
      return problems.map((problem) => `Stripe's subscription ${id} ${problem}.`);
    },
  };
};
