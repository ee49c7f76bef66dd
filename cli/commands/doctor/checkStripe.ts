import { listOrganizations } from "../../../db/accounts/accounts.ts";
import { readDeployment } from "../../../db/billing/deployment.ts";
import {
  listOrganizationsWithoutCustomer,
  listUsedKinds,
} from "../../../db/billing/processorEvents/stripeSubscriptions.ts";
import { counted } from "../../../domain/counted.ts";
import { runConcurrently } from "../../../services/runConcurrently.ts";
import type { CliContext } from "../../context.ts";
import { check, checkEach, isDatabaseReachable, ok, skipped, warning, wrong } from "./check.ts";
import type { Finding, Result } from "./check.ts";

/** Each subscription takes a handful of calls. */
const MAXIMUM_SUBSCRIPTIONS = 20;

/** Each customer takes one call. */
const MAXIMUM_CUSTOMERS = 100;
/** One after the other, slow calls would exceed the time of a check. */
const CONCURRENT_CALLS = 5;

type WithoutCustomer = Awaited<ReturnType<typeof listOrganizationsWithoutCustomer>>;

const SET_CUSTOMER = "`impact org update ID --stripe-customer cus_… --stripe-subscription sub_…`";

/** Describes organizations without a customer, such as "2 organizations have no Stripe customer, such as A". */
const describeWithoutCustomer = (organizations: WithoutCustomer, which: string): string =>
  `${counted(organizations.length, "organization")}${which} ${organizations.length === 1 ? "has" : "have"} no Stripe customer, such as ${organizations[0]?.name}`;

const checkCustomers = async ({ connections }: CliContext): Promise<Result> => {
  const stripe = await connections.stripe();
  const db = await connections.database();
  const organizations = await listOrganizations(db);
  if (stripe === null || organizations.length === 0) {
    return skipped("there are no organizations, or STRIPE_SECRET_KEY is not set");
  }
  const without = await listOrganizationsWithoutCustomer(db);
  const rejected = without.filter(({ hasLiveUsage }) => hasLiveUsage);
  const customers = organizations.flatMap(({ name, stripeCustomerId }) =>
    stripeCustomerId === null ? [] : [{ name, stripeCustomerId }],
  );
  const newest = customers.slice(-MAXIMUM_CUSTOMERS);
  const inspected = await runConcurrently(
    newest,
    async ({ name, stripeCustomerId }) => {
      const problem = await stripe.inspectCustomer(stripeCustomerId);
      return problem === null ? null : `${name}: ${problem}`;
    },
    { concurrency: CONCURRENT_CALLS },
  );
  const problems = inspected.filter((problem) => problem !== null);
  if (rejected.length > 0) {
    problems.push(
      `${describeWithoutCustomer(rejected, " with live usage")}. It is rejected until ${SET_CUSTOMER} sets one.`,
    );
  }
  if (problems.length > 0) {
    return wrong(problems.join(" "));
  }
  return without.length > 0
    ? warning(
        `${describeWithoutCustomer(without, "")}. Before a client uses a production key, set one: ${SET_CUSTOMER}`,
      )
    : ok(`Stripe has the newest ${newest.length} of ${counted(customers.length, "customer")}`);
};

const checkSubscriptions = async ({ connections }: CliContext): Promise<Result> => {
  const stripe = await connections.stripe();
  const db = await connections.database();
  const organizations = await listOrganizations(db);
  const subscribed = organizations.flatMap(({ id, name, stripeCustomerId, stripeSubscriptionId }) =>
    stripeSubscriptionId === null ? [] : [{ id, name, stripeCustomerId, stripeSubscriptionId }],
  );
  if (stripe === null || subscribed.length === 0) {
    return skipped("no organization has a subscription, or STRIPE_SECRET_KEY is not set");
  }
  const newest = subscribed.slice(-MAXIMUM_SUBSCRIPTIONS);
  const problems = await Promise.all(
    newest.map(async ({ id, name, stripeCustomerId, stripeSubscriptionId }) =>
      (
        await stripe.inspectSubscription(
          stripeCustomerId,
          stripeSubscriptionId,
          await listUsedKinds(db, id),
        )
      ).map((problem) => `${name}: ${problem}`),
    ),
  );
  const found = problems.flat();
  return found.length === 0
    ? ok(
        `each used meter has a price in the newest ${newest.length} of ${counted(subscribed.length, "subscription")}`,
      )
    : wrong(found.join(" "));
};

const CHECKS = {
  "Stripe customers": checkCustomers,
  "Stripe subscriptions": checkSubscriptions,
};

/** Without a key, usage of organizations with a Stripe customer is not sent. */
const checkWithoutKey = async ({ connections }: CliContext): Promise<Result> => {
  const db = await connections.database();
  const organizations = await listOrganizations(db);
  const waiting = organizations.filter(({ stripeCustomerId }) => stripeCustomerId !== null).length;
  if (waiting === 0) {
    return skipped("STRIPE_SECRET_KEY is not set here; live usage goes to the built-in ledger");
  }
  // A copy has the customers of the original, which bills them.
  const { separatedAt } = await readDeployment(db);
  return separatedAt === null
    ? wrong(
        `STRIPE_SECRET_KEY is not set here, and ${counted(waiting, "organization has", "organizations have")} a Stripe customer. Set it, or their live usage is not sent`,
      )
    : skipped(
        `STRIPE_SECRET_KEY is not set here; in this copy, live usage of ${counted(waiting, "organization")} with a Stripe customer waits`,
      );
};

/** Checks that Stripe accepts the key and that its meters, customers and subscriptions fit. It is read-only. */
export const checkStripe = async (context: CliContext): Promise<readonly Finding[]> => {
  const hasDatabase = await isDatabaseReachable(context);
  const reachable = await check("Stripe", async () => {
    const stripe = await context.connections.stripe();
    if (stripe === null) {
      return hasDatabase
        ? checkWithoutKey(context)
        : skipped("STRIPE_SECRET_KEY is not set here, and the database cannot be reached");
    }
    const problems = await stripe.inspectMeters();
    return problems.length === 0
      ? ok("the key is accepted, and both meters are set up")
      : wrong(problems.join(" "));
  });
  const skipReason = !hasDatabase
    ? "the database cannot be reached"
    : reachable.status === "ok"
      ? null
      : "Stripe is not configured or cannot be reached";
  return [reachable, ...(await checkEach(context, CHECKS, skipReason))];
};
