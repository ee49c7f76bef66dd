import { listOrganizations } from "../../modules/accounts/accounts.sql.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { readCell } from "../../modules/records/cells.sql.ts";
import {
  listOrganizationsWithoutCustomer,
  listWatchedSubscriptions,
} from "../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { listInvoicedUsage } from "../../modules/billing/invoices/invoicedUsage.sql.ts";
import {
  describeInvoiceProblems,
  needsAttention,
} from "../../modules/billing/invoices/invoiceReports.rules.ts";
import { listStores } from "../../modules/stores/stores.sql.ts";
import { listSubscriptionProblems } from "../../modules/billing/subscriptions.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { missingCharitySettings } from "../../modules/charities/createCharities.ts";
import { ok, skipped, warning, wrong } from "./doctorFindings.ts";
import type { Checks, DatabaseContext, Result } from "./doctorFindings.ts";
import type { Cli } from "../command.ts";

/** Thin events and snapshot events have destinations, and so secrets, of their own. */
const WEBHOOK_DESTINATIONS = 2;

const MINIMUM_GRACE_HOURS = 24;

const okUnless = (problems: readonly string[], detail: string): Result =>
  problems.length === 0 ? ok(detail) : wrong(problems.join(" "));

const SET_CUSTOMER = "`impact org update ID --stripe-customer cus_… --stripe-subscription sub_…`";

const checkCustomers = async ({ db }: DatabaseContext): Promise<Result> => {
  const without = await listOrganizationsWithoutCustomer(db);
  if (without.length === 0) {
    return ok("every organization has one");
  }
  const rejected = without.filter(({ hasLiveUsage }) => hasLiveUsage);
  const isRejected = rejected.length > 0;
  const { length, 0: first } = isRejected ? rejected : without;
  const which = isRejected ? " with live usage" : "";
  const have = counted(length, `organization${which} has`, `organizations${which} have`);
  const what = `${have} no Stripe customer, such as ${first?.name}`;
  return isRejected
    ? wrong(`${what}. It is rejected until ${SET_CUSTOMER} sets one.`)
    : warning(`${what}. Before a client uses a production key, set one: ${SET_CUSTOMER}`);
};

/** Without the right to read something, webhooks, refunds or comparisons fail when they first need it. */
const checkRights = async ({ connections }: Cli): Promise<Result> => {
  const problems = (await (await connections.stripe())?.inspectRights()) ?? [];
  return okUnless(problems, "the key may read all that is needed");
};

const checkWebhooks = ({ connections }: Cli): Result => {
  const secrets = (connections.config().STRIPE_WEBHOOK_SECRET ?? "").split(",").filter(Boolean);
  return secrets.length >= WEBHOOK_DESTINATIONS
    ? ok(`${counted(secrets.length, "signing secret is", "signing secrets are")} set`)
    : warning(
        `STRIPE_WEBHOOK_SECRET has ${counted(secrets.length, "secret")} here, and two destinations are needed: one for refused usage, one for changes of subscriptions and payments of stores`,
      );
};

/** Usage that arrives after an invoice was finalized is on no invoice. */
const checkGrace = async ({ db, connections }: DatabaseContext): Promise<Result> => {
  const organizations = await listOrganizations(db);
  const oldest = organizations.find(({ stripeSubscriptionId }) => stripeSubscriptionId !== null);
  const stripe = await connections.stripe();
  const customerId = oldest?.stripeCustomerId ?? null;
  const hours = customerId === null ? null : ((await stripe?.readGraceHours(customerId)) ?? null);
  if (hours === null) {
    return skipped("no invoice of a subscription's period was finalized yet");
  }
  const detail = `the newest invoice was finalized ${counted(hours, "hour")} after its period`;
  return hours < MINIMUM_GRACE_HOURS
    ? warning(`${detail}. Set the grace period of invoices at Stripe to 24 hours or more`)
    : ok(detail);
};

/** What Stripe needs beside the subscriptions, which are read at night. */
export const STRIPE_CHECKS: Checks<DatabaseContext> = {
  "Stripe key": checkRights,
  "Stripe webhooks": checkWebhooks,
  "Stripe grace period": checkGrace,
  "Stripe customers": checkCustomers,
};

/** Checks that Stripe accepts the key. Without one, usage of organizations with a Stripe customer is not sent. */
export const checkStripe = async ({ connections }: Cli): Promise<Result> => {
  const db = await connections.database().catch(() => null);
  const stripe = await connections.stripe();
  if (stripe !== null) {
    const cell = db === null ? (connections.config().CELL ?? null) : await readCell(db);
    const problems = await stripe.inspectMeters(cell);
    return okUnless(problems, "the key is accepted, and both meters are set up");
  }
  const missing = "STRIPE_SECRET_KEY is not set here";
  if (db === null) {
    return skipped(missing);
  }
  const organizations = await listOrganizations(db);
  const waiting = organizations.filter(({ stripeCustomerId }) => stripeCustomerId !== null).length;
  if (waiting === 0) {
    return skipped(`${missing}; live usage goes to the built-in ledger`);
  }
  // A copy has the customers of the original, which bills them.
  const { separatedAt } = await readDeployment(db);
  const have = counted(waiting, "organization has", "organizations have");
  const waits = `live usage of ${counted(waiting, "organization")} with a Stripe customer waits`;
  return separatedAt === null
    ? wrong(`${missing}, and ${have} a Stripe customer. Set it, or their live usage is not sent`)
    : skipped(`${missing}; in this copy, ${waits}`);
};

const PROBLEMS_SHOWN = 10;

/** Reports the problems of subscriptions as they were last read, and what was not invoiced exactly once when that was last compared. */
const checkInvoicing = async ({ db }: DatabaseContext): Promise<Result> => {
  const watched = await listWatchedSubscriptions(db, null);
  const invoiced = await listInvoicedUsage(db, null, { onlyProblems: true });
  const ofSubscriptions = watched
    .filter(({ policy }) => policy !== "keep")
    .flatMap((subscription) =>
      listSubscriptionProblems(subscription).map(
        ({ text }) => `${subscription.accountName}: its subscription ${text}.`,
      ),
    );
  const ofInvoices = invoiced.flatMap((usage) =>
    describeInvoiceProblems([usage]).map((text) => `${usage.accountNames}: ${text}.`),
  );
  const problems = [...ofSubscriptions, ...ofInvoices];
  if (problems.length === 0) {
    const read = counted(watched.length, "subscription was", "subscriptions were");
    return ok(`${read} read; all delivered usage is on one invoice, or waits for one`);
  }
  const hidden = problems.splice(PROBLEMS_SHOWN).length;
  const rest = hidden > 0 ? ` And ${hidden} more.` : "";
  const text = `${problems.join(" ")}${rest} See \`impact usage reconcile\``;
  return ofSubscriptions.length > 0 || invoiced.some(needsAttention) ? wrong(text) : warning(text);
};

const checkProviders = async ({ db, connections }: DatabaseContext): Promise<Result> => {
  const accounts = [
    ...(await listOrganizations(db)),
    ...(await listStores(db)).filter(({ uninstalledAt }) => uninstalledAt === null),
  ];
  const users = Map.groupBy(accounts, ({ charityProvider }) => charityProvider);
  const missing = Array.from(users, ([provider, { length }]) => {
    const settings = missingCharitySettings(connections.config(), provider);
    return settings.length === 0
      ? []
      : `${settings.join(" or ")} is not set here, and ${counted(length, "account uses", "accounts use")} ${provider}`;
  }).flat();
  return missing.length === 0
    ? ok(users.size === 0 ? "no accounts" : [...users.keys()].toSorted().join(", "))
    : wrong(`${missing.join("; ")}. Their searches and donations fail`);
};

export const BILLING_CHECKS: Checks<DatabaseContext> = {
  "subscriptions and invoices": checkInvoicing,
  "charity providers": checkProviders,
};
