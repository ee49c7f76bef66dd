import { listAccounts } from "../../../db/accounts/accounts.ts";
import type { Context } from "../../context.ts";
import { check, ok, skipped, wrong } from "./check.ts";
import type { Finding, Verdict } from "./check.ts";

/** Each is a handful of calls, and the doctor's patience is short. */
const MAXIMUM_SUBSCRIPTIONS = 20;

const checkSubscriptions = ({ connections }: Context): Promise<Finding> =>
  check("Stripe subscriptions", async () => {
    const stripe = connections.stripe();
    const organizations = await listAccounts(await connections.database(), "organization");
    const subscribed = organizations.flatMap(({ name, stripeCustomerId, stripeSubscriptionId }) =>
      stripeSubscriptionId === null ? [] : [{ name, stripeCustomerId, stripeSubscriptionId }],
    );
    if (stripe === null || subscribed.length === 0) {
      return skipped("no organization has one, or STRIPE_SECRET_KEY is not set");
    }
    const newest = subscribed.slice(-MAXIMUM_SUBSCRIPTIONS);
    const faults = await Promise.all(
      newest.map(async ({ name, stripeCustomerId, stripeSubscriptionId }) =>
        (await stripe.inspectSubscription(stripeCustomerId, stripeSubscriptionId)).map(
          (fault) => `${name}: ${fault}`,
        ),
      ),
    );
    const found = faults.flat();
    return found.length === 0
      ? ok(
          `the newest ${newest.length} of ${subscribed.length} have a price on each meter that is the customer's`,
        )
      : wrong(found.join(" "));
  });

/** Without a key, usage of an account with a Stripe customer waits until there is one. */
const checkWithoutKey = async ({ connections }: Context): Promise<Verdict> => {
  const organizations = await listAccounts(await connections.database(), "organization");
  const waiting = organizations.filter(({ stripeCustomerId }) => stripeCustomerId !== null).length;
  return waiting === 0
    ? skipped("STRIPE_SECRET_KEY is not set here: live usage goes to the built-in ledger")
    : wrong(
        `STRIPE_SECRET_KEY is not set here, and ${waiting} organization${waiting === 1 ? " has" : "s have"} a Stripe customer: without the key their live usage waits`,
      );
};

/**
 * Whether Stripe takes the key, has our meters as we need them, and has the organizations' subscriptions on them. It
 * changes nothing there.
 */
export const checkStripe = async (context: Context): Promise<readonly Finding[]> => {
  const reachable = await check("Stripe", async () => {
    const stripe = context.connections.stripe();
    if (stripe === null) {
      return checkWithoutKey(context);
    }
    const faults = await stripe.inspectMeters();
    return faults.length === 0
      ? ok("the key is accepted, both meters fit")
      : wrong(faults.join(" "));
  });
  return [
    reachable,
    reachable.status === "ok"
      ? await checkSubscriptions(context)
      : { check: "Stripe subscriptions", ...skipped("needs Stripe") },
  ];
};
