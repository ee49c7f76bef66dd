import { Option } from "@commander-js/extra-typings";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import type { Period } from "../../modules/billing/usage.rules.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import {
  listMeterEventsOf,
  listUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import type {
  ListedMeterEvent,
  UsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import { usageNotFound } from "../../modules/billing/reconciliation/repairUsage.ts";
import { readStatement } from "../../modules/billing/readStatement.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { readUsageReport } from "../../modules/registrations/readUsageReports.ts";
import { findRegistration } from "../../modules/registrations/registrations.sql.ts";
import { parseLookup } from "../../modules/support/lookup.rules.ts";
import { listFoundRegistrations } from "../../modules/support/recordLookups.sql.ts";
import { ACCOUNT_OPTION, readAccountFilter } from "../accountOptions.ts";
import { parseSearchText } from "../arguments.ts";
import {
  SENT_BY_WORKERS,
  adviseOn,
  presentAttention,
  presentMeterEvent,
  printAttention,
  sayHold,
} from "../output/printUsage.ts";
import type { Cli, Define } from "../command.ts";
import type { Fields } from "../output/print.ts";
import { CURRENT, parsePeriodOrCurrent } from "../timeRange.ts";
import { findUsageName, USAGE_NAME } from "../usageNames.ts";
import { describeBilling, listSums, presentForOperators } from "./statement.ts";

const explainOrganization = async (
  cli: Cli,
  { id, name, ...account }: Account,
  period: Period | typeof CURRENT,
): Promise<void> => {
  const deps = await cli.openBilling();
  const owner = { accountId: id, mode: "live" } as const;
  const read = await readStatement(deps, owner, period);
  const attention = await listUsageAttention(deps.db, id);
  const { hold } = await readDeployment(deps.db);
  const fields = {
    customer_id: account.stripeCustomerId,
    subscription_id: account.stripeSubscriptionId,
  };
  const shown = attention.map(presentAttention);
  cli.printResult({ ...presentForOperators(read), ...fields, attention: shown }, () => {
    cli.printFields({ organization: `${name} (${id})`, ...fields });
    cli.io.stdout.write("\n");
    cli.printObjects(listSums(read.statements));
    for (const line of read.statements.flatMap(describeBilling)) {
      cli.printText(line);
    }
    cli.io.stdout.write("\n");
    if (attention.length === 0) {
      cli.printText("Nothing is open: whatever is pending is sent by the workers.");
    }
    printAttention(cli, attention);
    sayHold(cli, hold);
  });
};

const planEvent = (
  { state, mayBeDelivered, waitsFor }: ListedMeterEvent,
  attention: UsageAttention | undefined,
): readonly string[] => {
  if (attention) {
    // A refund of usage that a document bills is not asked about.
    const isAsked = state === "failed" && mayBeDelivered && waitsFor === null;
    return adviseOn(isAsked ? { ...attention, cause: "unclear" } : attention).plan;
  }
  if (waitsFor !== null) {
    return [`It waits for its usage: impact usage explain E${waitsFor}`];
  }
  return [state === "pending" ? SENT_BY_WORKERS : "Nothing to do."];
};

/** Prints an event or a registration, with the events that belong to it, and what to do. */
const printExplained = (
  cli: Cli,
  fields: Fields,
  plan: readonly string[],
  events?: readonly ListedMeterEvent[],
): void => {
  const shown = events?.map(presentMeterEvent);
  cli.printResult({ ...fields, meter_events: shown, plan }, () => {
    cli.printFields(fields);
    for (const event of shown ?? []) {
      cli.io.stdout.write("\n");
      cli.printFields(event);
    }
    if (plan.length > 0) {
      cli.printText("\nPlan:");
    }
    for (const [index, step] of plan.entries()) {
      cli.printText(`  ${index + 1}. ${step}`);
    }
  });
};

/** More registrations of a second are found with `impact find`. */
const REGISTRATIONS_SHOWN = 20;

const explainEvent = async (cli: Cli, id: bigint): Promise<void> => {
  const db = await cli.connections.database();
  const [event] = await listMeterEventsOf(db, { id });
  if (!event) {
    throw usageNotFound([id]);
  }
  const lookup = parseLookup({ text: `E${id}`, accountId: null, limit: REGISTRATIONS_SHOWN });
  const ids = (await listFoundRegistrations(db, lookup, ["meter_event"])).map(shownIdOf);
  const registrations = cli.io.json ? ids : ids.join(" ") || null;
  const [attention] = await listUsageAttention(db, event.accountId, id);
  printExplained(cli, { ...presentMeterEvent(event), registrations }, planEvent(event, attention));
};

/** Explains what was sent of a registration's usage, and which invoice has it. */
const explainRegistration = async (cli: Cli, id: string): Promise<void> => {
  const deps = await cli.openBilling();
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
  printExplained(cli, fields, plan, events);
};

const EXPLAIN_HELP = `
For an organization: what was registered, refunded, reported and invoiced, and what is open,
with the next commands. For an event, a difference, a registration or an order:
what was sent, why it is in its state, and the plan in steps. Nothing is changed.`;

export const addExplainCommand: Define = (usage, cli) => {
  usage
    .command("explain")
    .description("Explain the usage of an organization, an item, a registration or an order")
    .argument("<name>", USAGE_NAME, parseSearchText)
    .addOption(
      new Option("--period <period>", "YYYY-MM, FROM/TO or current (the billing cycle)")
        .argParser(parsePeriodOrCurrent)
        .default(CURRENT),
    )
    .option(...ACCOUNT_OPTION)
    .addHelpText("after", EXPLAIN_HELP)
    .action(async (text, { org, period }) => {
      const db = await cli.connections.database();
      const name = await findUsageName(db, text, await readAccountFilter(db, org));
      switch (name.kind) {
        case "organization":
          return explainOrganization(cli, name.account, period);
        case "event":
          return explainEvent(cli, name.id);
        case "registrations":
          for (const [index, id] of name.ids.entries()) {
            cli.io.stdout.write(index === 0 ? "" : "\n");
            await explainRegistration(cli, id);
          }
      }
    });
};
