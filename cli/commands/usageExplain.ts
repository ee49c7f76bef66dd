import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { findAccount } from "../../modules/accounts/accounts.sql.ts";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import type { Period } from "../../modules/billing/usage.rules.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import {
  listMeterEventsOf,
  listUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import type { ListedMeterEvent } from "../../modules/billing/meterEventReports.sql.ts";
import { retryUsage, usageNotFound } from "../../modules/billing/reconciliation/repairUsage.ts";
import { nameOf } from "../../modules/billing/meterEvents.rules.ts";
import { ProcessorUnavailableError } from "../../modules/billing/processor.ts";
import { readStatement } from "../../modules/billing/readStatement.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { readUsageReport } from "../../modules/registrations/readUsageReports.ts";
import { findRegistration } from "../../modules/registrations/registrations.sql.ts";
import { parseLookup } from "../../modules/support/lookup.rules.ts";
import { listFoundRegistrations } from "../../modules/support/recordLookups.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { accountOption, readAccountFilter } from "../accountOptions.ts";
import { parseSearchText } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { openBillingChange } from "../operator.ts";
import { openBilling } from "../context.ts";
import type { Io } from "../io.ts";
import { printFields, printResult, printText } from "../output/print.ts";
import type { Fields } from "../output/print.ts";
import {
  closingCommand,
  mendingCommand,
  presentAttention,
  presentMeterEvent,
  printAttention,
  sayHold,
} from "../output/printUsage.ts";
import { CURRENT, parsePeriodOrCurrent } from "../timeRange.ts";
import { findUsageName, USAGE_NAME } from "../usageNames.ts";
import { describeBilling, presentForOperators, printSums } from "./statement.ts";

const explainOrganization = async (
  context: CliContext,
  { id, name, ...account }: Account,
  period: Period | typeof CURRENT,
): Promise<void> => {
  const { io } = context;
  const deps = await openBilling(context);
  const owner = { accountId: id, mode: "live" } as const;
  const read = await readStatement(deps, owner, period === CURRENT ? null : period);
  const attention = await listUsageAttention(deps.db, id);
  const { hold } = await readDeployment(deps.db);
  const fields = {
    customer_id: account.stripeCustomerId,
    subscription_id: account.stripeSubscriptionId,
  };
  const shown = attention.map(presentAttention);
  printResult(io, { ...presentForOperators(read), ...fields, attention: shown }, () => {
    printFields(io, { organization: `${name} (${id})`, ...fields });
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
    sayHold(io, hold);
  });
};

const closingSteps = (event: ListedMeterEvent): readonly string[] => [
  `If a document ${event.quantity > 0 ? "bills" : "returns"} it: ${closingCommand(nameOf(event), event.quantity)}`,
  `If nothing does: impact usage close ${nameOf(event)} --never-bill --reason TEXT`,
];

/** Returns what settles a failed event: what a retry would do, or why it is refused, and what else. Stripe is read for a difference. */
const planFailed = async (
  context: CliContext,
  event: ListedMeterEvent,
): Promise<readonly string[]> => {
  const { accountId, failure, quantity: units } = event;
  const retrying = `impact usage retry ${nameOf(event)}`;
  const deps = await openBillingChange(context, {});
  const retry = await retryUsage(deps, event.id, { isDryRun: true }).then(
    (planned) => planned.retry,
    (error: unknown) => {
      if (error instanceof DomainError || error instanceof ProcessorUnavailableError) {
        return error;
      }
      throw error;
    },
  );
  if (retry instanceof Error) {
    return [`A retry is refused: ${retry.message}.`];
  }
  if (retry === "ask") {
    return [
      `Have Stripe asked whether it has it; what it lacks is sent: ${retrying}`,
      `If it stays unclear, look at Stripe, and answer: ${retrying} --delivered, or --absent`,
    ];
  }
  if (retry === "wait") {
    return [`Have it sent as soon as Stripe has its usage: ${retrying}`];
  }
  if (retry === "too_old") {
    return ["It is older than Stripe accepts, so it cannot be sent.", ...closingSteps(event)];
  }
  const customerId = (await findAccount(deps.db, accountId))?.stripeCustomerId;
  if (failure === "refused" && units < 0 && event.customerId !== customerId) {
    const refused = `Stripe refused to take it back from ${event.customerId}, an earlier customer.`;
    return [refused, ...closingSteps(event)];
  }
  const mend =
    failure === "difference"
      ? null
      : (mendingCommand(accountId, event.lastError) ?? "see the reason");
  const sent = counted(Math.abs(units), "unit");
  return [
    ...(mend === null ? [] : [`Remove the cause: ${mend}`]),
    `${units > 0 ? `Send ${sent} to Stripe` : `Take ${sent} back at Stripe`}: ${retrying}`,
    ...closingSteps(event),
  ];
};

const planEvent = (
  context: CliContext,
  event: ListedMeterEvent,
): Promise<readonly string[]> | readonly string[] => {
  if (event.isLate) {
    return ["No invoice at Stripe contains it.", ...closingSteps(event)];
  }
  switch (event.state) {
    case "failed":
      return planFailed(context, event);
    case "pending":
      return ["Nothing to do: the workers send it, or ask Stripe first whether it has it."];
    case "delivered":
    case "closed":
      return ["Nothing to do."];
  }
};

/** Prints an event or a registration, with the events that belong to it, and what to do. */
const printExplained = (
  io: Io,
  fields: Fields,
  plan: readonly string[],
  events?: readonly ListedMeterEvent[],
): void => {
  const shown = events?.map(presentMeterEvent);
  printResult(io, { ...fields, meter_events: shown, plan }, () => {
    printFields(io, fields);
    for (const event of shown ?? []) {
      io.stdout.write("\n");
      printFields(io, event);
    }
    if (plan.length > 0) {
      printText(io, "\nPlan:");
    }
    for (const [index, step] of plan.entries()) {
      printText(io, `  ${index + 1}. ${step}`);
    }
  });
};

/** More registrations of a second are found with `impact find`. */
const REGISTRATIONS_SHOWN = 20;

const explainEvent = async (context: CliContext, id: bigint): Promise<void> => {
  const db = await context.connections.database();
  const [event] = await listMeterEventsOf(db, { id });
  if (!event) {
    throw usageNotFound([id]);
  }
  const lookup = parseLookup({ text: `E${id}`, accountId: null, limit: REGISTRATIONS_SHOWN });
  const ids = (await listFoundRegistrations(db, lookup, ["meter_event"])).map(shownIdOf);
  const registrations = context.io.json ? ids : ids.join(" ") || null;
  const fields = { ...presentMeterEvent(event), registrations };
  printExplained(context.io, fields, await planEvent(context, event));
};

/** Explains what was sent of a registration's usage, and which invoice has it. */
const explainRegistration = async (context: CliContext, id: string): Promise<void> => {
  const deps = await openBilling(context);
  const registration = await findRegistration(deps.db, id);
  if (!registration) {
    throw recordNotFound("registration", id);
  }
  const { accountId, mode, kind, isPrepaid } = registration;
  const report = await readUsageReport(deps, { accountId, mode }, id, [kind]);
  const events = await listMeterEventsOf(deps.db, { registrationId: id });
  const { period, state, ...reported } = report;
  const fields = {
    ...reported,
    created_at: registration.createdAt,
    account_id: accountId,
    account_name: registration.accountName,
    mode,
    billing: state,
    period_start: period && new Date(period.start),
    period_end: period && new Date(period.end),
  };
  const noUsage = isPrepaid
    ? "It has no usage: it was paid from the store's balance."
    : "It has no usage: it was imported, so it is not billed and cannot be refunded.";
  const plan =
    state === "not_billed"
      ? [noUsage]
      : events
          .filter((event) => event.state === "failed")
          .map((event) => `Its usage has failed: impact usage explain E${event.id}`);
  printExplained(context.io, fields, plan, events);
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
    .action(async (text, { org, period }) => {
      const db = await context.connections.database();
      const name = await findUsageName(db, text, await readAccountFilter(db, org));
      switch (name.kind) {
        case "organization":
          return explainOrganization(context, name.account, period);
        case "event":
          return explainEvent(context, name.id);
        case "registrations":
          for (const [index, id] of name.ids.entries()) {
            context.io.stdout.write(index === 0 ? "" : "\n");
            await explainRegistration(context, id);
          }
      }
    });
};
