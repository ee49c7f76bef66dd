import { listOrganizations } from "../../modules/accounts/accounts.sql.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import {
  listOrganizationsWithoutCustomer,
  listUsedKinds,
  listWatchedSubscriptions,
} from "../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { listInvoicedUsage } from "../../modules/billing/invoices/invoicedUsage.sql.ts";
import {
  describeInvoiceProblems,
  needingAttention,
} from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { listStores } from "../../modules/stores/stores.sql.ts";
import { listSubscriptionProblems } from "../../modules/billing/subscriptions.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { findIgnoredPrice } from "../../modules/billing/loadStripe.ts";
import { runConcurrently } from "../../runtime/runConcurrently.ts";
import { missingCharitySettings } from "../charitySettings.ts";
import type { CliContext } from "../context.ts";
import {
  check,
  checkEach,
  checkWithDatabase,
  isDatabaseReachable,
  ok,
  skipped,
  warning,
  wrong,
} from "./doctorFindings.ts";
import type { Finding, Result } from "./doctorFindings.ts";

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

/** Clients would be billed for trees that nobody plants. */
const checkPartner = async ({ connections }: CliContext): Promise<Result> => {
  const { PLANTING_PARTNER: partner } = connections.config();
  const stripe = await connections.stripe();
  return partner === "simulated" && (await stripe?.readAccount())?.isLive === true
    ? warning(
        "Stripe bills in live mode, and the planting partner is simulated, so no tree is planted. Set PLANTING_PARTNER",
      )
    : ok(partner);
};

const CHECKS = {
  "planting partner": checkPartner,
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

const PROBLEMS_SHOWN = 10;

/** Joins the first problems into a text. */
const describeProblems = (problems: readonly string[]): string => {
  const hidden = problems.length - PROBLEMS_SHOWN;
  return [
    ...problems.slice(0, PROBLEMS_SHOWN),
    ...(hidden > 0 ? [`And ${hidden} more.`] : []),
  ].join(" ");
};

/** Reports what was not invoiced exactly once when invoices were last compared. */
export const checkInvoices = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "invoices as last compared", async () => {
    const found = await listInvoicedUsage(await context.connections.database(), null, {
      onlyProblems: true,
    });
    const problems = found.flatMap((usage) =>
      describeInvoiceProblems([usage]).map((text) => `${usage.accountNames}: ${text}.`),
    );
    if (problems.length === 0) {
      return ok("all delivered usage is on one invoice, or waits for one");
    }
    const text = `${describeProblems(problems)} See \`impact usage reconcile\``;
    return needingAttention(found).length > 0 ? wrong(text) : warning(text);
  });

/** Reports the problems of subscriptions as they were last read. */
export const checkWatchedSubscriptions = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "subscriptions as last read", async () => {
    const watched = await listWatchedSubscriptions(await context.connections.database(), null);
    if (watched.length === 0) {
      return skipped("no subscription has been read yet");
    }
    const problems = watched
      .filter(({ policy }) => policy !== "keep")
      .flatMap((subscription) =>
        listSubscriptionProblems(subscription).map(
          ({ text }) => `${subscription.accountName}: its subscription ${text}.`,
        ),
      );
    return problems.length === 0
      ? ok(`${watched.length} read, and none needs attention`)
      : wrong(describeProblems(problems));
  });

const checkProviders = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "charity providers", async () => {
    const { connections } = context;
    const db = await connections.database();
    const accounts = [
      ...(await listOrganizations(db)),
      ...(await listStores(db)).filter(({ uninstalledAt }) => uninstalledAt === null),
    ];
    const selected = [...new Set(accounts.map(({ charityProvider }) => charityProvider))];
    const missing = selected.flatMap((provider) => {
      const setting = missingCharitySettings(connections.config(), provider);
      const users = accounts.filter(({ charityProvider }) => charityProvider === provider).length;
      return setting === null
        ? []
        : [
            `${setting} is not set here, and ${counted(users, "account uses", "accounts use")} ${provider}`,
          ];
    });
    return missing.length === 0
      ? ok(selected.length === 0 ? "no accounts" : selected.toSorted().join(", "))
      : wrong(`${missing.join("; ")}. Their searches and donations fail`);
  });

const checkPrices = ({ connections }: CliContext): Promise<Finding> =>
  check("donation prices", () => {
    const {
      STRIPE_SECRET_KEY,
      STRIPE_DONATION_FLAT_PRICE: flat,
      STRIPE_DONATION_METERED_PRICE: metered,
    } = connections.config();
    const ignored = findIgnoredPrice(connections.config());
    if (ignored !== null) {
      return Promise.resolve(wrong(ignored));
    }
    if (STRIPE_SECRET_KEY === undefined) {
      return Promise.resolve(skipped("STRIPE_SECRET_KEY is not set here"));
    }
    return Promise.resolve(
      flat === undefined || metered === undefined
        ? skipped(
            "STRIPE_DONATION_FLAT_PRICE and STRIPE_DONATION_METERED_PRICE are not set here; POST /charities/subscribe fails without them for live keys",
          )
        : ok("both are set"),
    );
  });

/** Checks that donations have the settings that they need. */
export const checkDonations = async (context: CliContext): Promise<readonly Finding[]> => [
  await checkProviders(context),
  await checkPrices(context),
];
