import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import type { Period } from "../../modules/billing/usage.rules.ts";
import { findHold } from "../../modules/billing/deployment.rules.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import {
  listMeterEventsOf,
  listUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import type { ListedMeterEvent } from "../../modules/billing/meterEventReports.sql.ts";
import { retryItems } from "../../modules/billing/reconciliation/retryUsage.ts";
import { nameOf } from "../../modules/billing/meterEvents.rules.ts";
import type { UsageItem } from "../../modules/billing/meterEvents.rules.ts";
import { readStatement } from "../../modules/billing/readStatement.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { readUsageReport } from "../../modules/registrations/readUsageReports.ts";
import { findRegistration } from "../../modules/registrations/registrations.sql.ts";
import { listRegistrationsOfMeterEvent } from "../../modules/support/recordLookups.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { accountOption, readAccountFilter } from "../accountOptions.ts";
import type { AccountOption } from "../accountOptions.ts";
import { parseSearchText } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { openBillingChange } from "../operator.ts";
import { openBilling } from "../context.ts";
import type { Io } from "../io.ts";
import { printFields, printJson, printText } from "../output/print.ts";
import type { Fields } from "../output/print.ts";
import {
  documentOption,
  mendingCommand,
  presentAttention,
  presentDifference,
  presentMeterEvent,
  printAttention,
  printPlan,
  sayHold,
} from "../output/printUsage.ts";
import { CURRENT, parsePeriodOrCurrent } from "../timeRange.ts";
import { findUsageName, USAGE_NAME } from "../usageNames.ts";
import { inDeployment, refundWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { describeBilling, presentForOperators, printSums } from "./statement.ts";
import { getDifference, itemNotFound } from "../../modules/billing/reconciliation/getUsageItems.ts";

type ExplainOptions = Partial<AccountOption> & { readonly period: Period | typeof CURRENT };

const explainOrganization = async (
  context: CliContext,
  account: Account,
  { period }: ExplainOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openBillingChange(context, {});
  const read = await readStatement(
    deps,
    { accountId: account.id, mode: "live" },
    period === CURRENT ? null : period,
  );
  const attention = await listUsageAttention(deps.db, account.id);
  const fields = {
    customer_id: account.stripeCustomerId,
    subscription_id: account.stripeSubscriptionId,
  };
  if (io.json) {
    printJson(io, {
      ...presentForOperators(read, "live"),
      ...fields,
      attention: attention.map(presentAttention),
    });
    return;
  }
  printFields(io, { organization: `${account.name} (${account.id})`, ...fields });
  io.stdout.write("\n");
  printSums(io, read.statements);
  for (const line of read.statements.flatMap(describeBilling)) {
    printText(io, line);
  }
  io.stdout.write("\n");
  if (attention.length === 0) {
    printText(io, "Nothing is open: whatever is pending is sent by the workers.");
  }
  printAttention(io, attention);
  sayHold(io, findHold(await readDeployment(deps.db)));
};

/** Returns what a retry of an item would do, or why it is refused, and what else settles it. Stripe is read for a difference. */
const planOpen = async (
  context: CliContext,
  item: UsageItem,
  units: number,
  mend: string | null,
): Promise<readonly string[]> => {
  const name = nameOf(item);
  const close = `impact usage close ${name} ${documentOption(units)} --reason TEXT`;
  const deps = await openBillingChange(context, {});
  const planned = retryItems(deps, [item], { isDryRun: true });
  const steps: string[] = [];
  for await (const retried of planned) {
    if ("refusal" in retried) {
      steps.push(`A retry is refused: ${retried.refusal.message}.`);
    } else if (retried.retry === "ask") {
      steps.push(
        `Have Stripe asked whether it has it; what it lacks is sent: impact usage retry ${name}`,
        `If it stays unclear, look at Stripe, and answer: impact usage retry ${name} --delivered, or --absent`,
      );
    } else {
      const sent = counted(Math.abs(units), "unit");
      steps.push(
        ...(item.letter === "E" ? [`Remove the cause${mend === null ? "." : `: ${mend}`}`] : []),
        `${units > 0 ? `Send ${sent} to Stripe` : `Take ${sent} back at Stripe`}: impact usage retry ${name}`,
        `Or, if a document corrects it: ${close}`,
        `Or, if that is right as it is: impact usage close ${name} --never-bill --reason TEXT`,
      );
    }
  }
  return steps;
};

const planEvent = (
  context: CliContext,
  { id, state, quantity, isLate, ...event }: ListedMeterEvent,
): Promise<readonly string[]> | readonly string[] => {
  if (state === "failed") {
    const { failure, accountId, lastError: reason } = event;
    const mend = failure === "refused" ? mendingCommand({ accountId, reason }) : null;
    return planOpen(context, { letter: "E", id }, quantity, mend);
  }
  if (state === "pending") {
    return ["Nothing to do: the workers send it, or ask Stripe first whether it has it."];
  }
  return isLate
    ? [
        `No invoice at Stripe contains it. Bill it by hand: impact usage close E${id} ${documentOption(quantity)} --reason TEXT`,
        `If it must never be billed: impact usage close E${id} --never-bill --reason TEXT`,
      ]
    : ["Nothing to do."];
};

/** Prints an item or a registration, with the rows that belong to it, and what to do. */
const printExplained = (
  io: Io,
  fields: Fields,
  plan: readonly string[],
  events: readonly ListedMeterEvent[] = [],
): void => {
  if (io.json) {
    printJson(io, {
      ...fields,
      ...(events.length > 0 && { meter_events: events.map(presentMeterEvent) }),
      plan,
    });
    return;
  }
  printFields(io, fields);
  for (const event of events) {
    io.stdout.write("\n");
    printFields(io, presentMeterEvent(event));
  }
  printPlan(io, plan);
};

/** More registrations of a second are found with `impact find`. */
const REGISTRATIONS_SHOWN = 20;

const explainEvent = async (context: CliContext, id: bigint): Promise<void> => {
  const db = await context.connections.database();
  const [event] = await listMeterEventsOf(db, { id });
  if (!event) {
    throw itemNotFound(`E${id}`);
  }
  const options = { text: "", accountId: null, limit: REGISTRATIONS_SHOWN };
  const registrations = await listRegistrationsOfMeterEvent(db, id, options);
  const ids = registrations.map(shownIdOf);
  const shown = context.io.json ? ids : ids.join(" ");
  const fields = { ...presentMeterEvent(event), registrations: shown };
  printExplained(context.io, fields, await planEvent(context, event));
};

const explainDifference = async (context: CliContext, id: bigint): Promise<void> => {
  const difference = await getDifference(await context.connections.database(), id);
  const plan =
    difference.state === "open"
      ? await planOpen(context, { letter: "D", id }, -difference.units, null)
      : ["Nothing to do."];
  printExplained(context.io, presentDifference(difference), plan);
};

/** Explains what was sent of a registration's usage, and which invoice has it. */
const explainRegistration = async (context: CliContext, id: string): Promise<void> => {
  const { io, connections } = context;
  const deps = await openBilling(context);
  const registration = await findRegistration(deps.db, id);
  if (!registration) {
    throw recordNotFound("registration", id);
  }
  const { accountId, mode, kind, isPrepaid, refundedCount } = registration;
  const report = await readUsageReport(deps, { accountId, mode }, id, [kind]);
  const events = await listMeterEventsOf(deps.db, { registrationId: id });
  const hasUsage = report.state !== "not_billed";
  const deployment = await connections.deploymentName();
  const fields = {
    registration_id: shownIdOf(registration),
    account_id: accountId,
    account_name: registration.accountName,
    mode,
    kind,
    count: registration.count,
    refunded_count: refundedCount,
    created_at: registration.createdAt,
    billing: report.state,
    period_start: report.period?.start ?? null,
    period_end: report.period?.end ?? null,
    invoice_number: report.invoice_number,
    uninvoiced_reason: report.uninvoiced_reason,
    // What was imported or prepaid has no usage, so nothing is to be reported or taken back.
    sender_workflow: hasUsage ? inDeployment(deployment, "usage-sender") : null,
    refund_workflow: hasUsage && refundedCount > 0 ? refundWorkflowId(deployment, id) : null,
  };
  const plan = events
    .filter((event) => event.state === "failed")
    .map((event) => `Its usage has failed: impact usage explain E${event.id}`);
  const noUsage = isPrepaid
    ? "It has no usage: it was paid from the store's balance."
    : "It has no usage: it was imported, so it is not billed and cannot be refunded.";
  printExplained(io, fields, hasUsage ? plan : [noUsage], events);
};

const explain = async (
  context: CliContext,
  text: string,
  options: ExplainOptions,
): Promise<void> => {
  const db = await context.connections.database();
  const name = await findUsageName(db, text, await readAccountFilter(db, options.org));
  switch (name.kind) {
    case "organization":
      return explainOrganization(context, name.account, options);
    case "item":
      return name.item.letter === "E"
        ? explainEvent(context, name.item.id)
        : explainDifference(context, name.item.id);
    case "registrations":
      for (const [index, id] of name.ids.entries()) {
        context.io.stdout.write(index === 0 ? "" : "\n");
        await explainRegistration(context, id);
      }
  }
};

const EXPLAIN_HELP = `
For an organization: what was registered, refunded, reported and invoiced, and what is open,
with the next commands. For an event, a difference, a registration or an order:
what was sent, why it is in its state, and the plan in steps. Nothing is changed.`;

export const addExplainCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("explain")
    .description("Explain the usage of an organization, an item, a registration or an order")
    .argument("<name>", USAGE_NAME, parseSearchText)
    .addOption(
      new Option("--period <period>", "YYYY-MM, FROM/TO or current (the billing cycle)")
        .argParser(parsePeriodOrCurrent)
        .default(CURRENT),
    )
    .addOption(accountOption())
    .addHelpText("after", EXPLAIN_HELP)
    .action((text, options) => explain(context, text, options));
};
