import { listAccounts } from "../../../db/accounts/accounts.ts";
import type { Context } from "../../context.ts";
import { check, ok, skipped, wrong } from "./check.ts";
import type { Finding, Result } from "./check.ts";

/** Each subscription takes a handful of calls. */
const MAXIMUM_SUBSCRIPTIONS = 20;

const checkSubscriptions = ({ connections }: Context): Promise<Finding> =>
  check("Stripe subscriptions", async () => {
    const stripe = connections.stripe();
    const organizations = await listAccounts(await connections.database(), "organization");
    const subscribed = organizations.flatMap(({ name, stripeCustomerId, stripeSubscriptionId }) =>
      stripeSubscriptionId === null ? [] : [{ name, stripeCustomerId, stripeSubscriptionId }],
    );
    if (stripe === null || subscribed.length === 0) {
      return skipped("no organization has a subscription, or STRIPE_SECRET_KEY is not set");
    }
    const newest = subscribed.slice(-MAXIMUM_SUBSCRIPTIONS);
    const problems = await Promise.all(
      newest.map(async ({ name, stripeCustomerId, stripeSubscriptionId }) =>
        (await stripe.inspectSubscription(stripeCustomerId, stripeSubscriptionId)).map(
          (problem) => `${name}: ${problem}`,
        ),
      ),
    );
    const found = problems.flat();
    return found.length === 0
      ? ok(`the newest ${newest.length} of ${subscribed.length} have a price for each meter`)
      : wrong(found.join(" "));
  });

/** Without a key, usage of organizations with a Stripe customer is not sent. */
const checkWithoutKey = async ({ connections }: Context): Promise<Result> => {
  const organizations = await listAccounts(await connections.database(), "organization");
  const waiting = organizations.filter(({ stripeCustomerId }) => stripeCustomerId !== null).length;
  return waiting === 0
    ? skipped("STRIPE_SECRET_KEY is not set here; live usage goes to the built-in ledger")
    : wrong(
        `STRIPE_SECRET_KEY is not set here, and ${waiting} organization${waiting === 1 ? " has" : "s have"} a Stripe customer. Set it, or their live usage is not sent`,
      );
};

/** Checks that Stripe accepts the key and that its meters and the organizations' subscriptions fit. It is read-only. */
export const checkStripe = async (context: Context): Promise<readonly Finding[]> => {
  const reachable = await check("Stripe", async () => {
    const stripe = context.connections.stripe();
    if (stripe === null) {
      return checkWithoutKey(context);
    }
    const problems = await stripe.inspectMeters();
    return problems.length === 0
      ? ok("the key is accepted, and both meters are set up")
      : wrong(problems.join(" "));
  });
  return [
    reachable,
    reachable.status === "ok"
      ? await checkSubscriptions(context)
      : {
          check: "Stripe subscriptions",
          ...skipped("Stripe is not configured or cannot be reached"),
        },
  ];
};
