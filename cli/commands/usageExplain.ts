import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import type { Period } from "../../modules/billing/usage.rules.ts";
import { findHold } from "../../modules/billing/deployment.rules.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import {
  listSealingsOfSecond,
  listUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import type { ListedMeterEvent } from "../../modules/billing/meterEventReports.sql.ts";
import { retryItems } from "../../modules/billing/reconciliation/retryUsage.ts";
import type { UsageItem } from "../../modules/billing/reconciliation/retryUsage.ts";
import { readStatement } from "../../modules/billing/readStatement.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { listRegistrationsOfMeterEvent } from "../../modules/support/recordLookups.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { accountOption, readAccountFilter } from "../accountOptions.ts";
import type { AccountOption } from "../accountOptions.ts";
import { parseSearchText } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { openBillingChange } from "../operator.ts";
import { printFields, printJson, printText, snakeCased } from "../output/print.ts";
import {
  documentOption,
  presentAttention,
  presentMeterEvent,
  printAttention,
  printPlan,
  sayHold,
} from "../output/printUsage.ts";
import { CURRENT, parsePeriodOrCurrent } from "../timeRange.ts";
import { findUsageName, nameOf, USAGE_NAME } from "../usageNames.ts";
import { explainRegistration } from "./usageOfRegistration.ts";
import { describeBilling, presentForOperators, printSums } from "./statement.ts";
import {
  getMeterEvent,
  getDifference,
} from "../../modules/billing/reconciliation/getUsageItems.ts";

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
): Promise<readonly string[]> => {
  const name = nameOf(item);
  const close = `impact usage close ${name} ${documentOption(units)} --reason TEXT`;
  const deps = await openBillingChange(context, {});
  const planned = retryItems(deps, [item], { reason: "", by: "", isDryRun: true });
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
        ...(item.letter === "E" ? ["Remove the cause."] : []),
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
  { id, state, quantity, isLate, documentReference }: ListedMeterEvent,
): Promise<readonly string[]> | readonly string[] => {
  if (state === "failed") {
    return planOpen(context, { letter: "E", id }, quantity);
  }
  if (state === "pending") {
    return ["Nothing to do: the workers send it, or ask Stripe first whether it has it."];
  }
  return isLate && documentReference === null
    ? [
        "Look whether an invoice at Stripe contains it.",
        `If none does, bill it by hand: impact usage close E${id} ${documentOption(quantity)} --reason TEXT`,
        `If one does: impact usage close E${id} --never-bill --reason "on invoice in_…"`,
      ]
    : ["Nothing to do."];
};

/** More registrations of a second are found with `impact find`. */
const REGISTRATIONS_SHOWN = 20;

const explainEvent = async (context: CliContext, id: bigint): Promise<void> => {
  const { io, connections } = context;
  const db = await connections.database();
  const { second, ...stream } = await getMeterEvent(db, id);
  const sealings = await listSealingsOfSecond(db, stream, second);
  const event = sealings.find((each) => each.id === id);
  if (!event) {
    throw new TypeError(`Meter event ${id} is not among those of its second.`);
  }
  const registrations = await listRegistrationsOfMeterEvent(db, id, {
    text: "",
    accountId: null,
    limit: REGISTRATIONS_SHOWN,
  });
  const plan = await planEvent(context, event);
  if (io.json) {
    printJson(io, {
      ...presentMeterEvent(event),
      registrations: registrations.map(shownIdOf),
      plan,
    });
    return;
  }
  const ids = registrations.map(shownIdOf).join(" ");
  printFields(io, { ...presentMeterEvent(event), registrations: ids === "" ? null : ids });
  printPlan(io, plan);
};

const explainDifference = async (context: CliContext, id: bigint): Promise<void> => {
  const { io, connections } = context;
  const difference = await getDifference(await connections.database(), id);
  const plan =
    difference.state === "open"
      ? await planOpen(context, { letter: "D", id }, -difference.units)
      : ["Nothing to do."];
  const { minute, second: _second, ...given } = difference;
  const fields = { ...snakeCased(given), id: `D${id}`, minute: timeOf(minute) };
  if (io.json) {
    printJson(io, { ...fields, plan });
    return;
  }
  printFields(io, fields);
  printText(
    io,
    `Stripe has ${counted(Math.abs(difference.units), "unit")} ${difference.units > 0 ? "more" : "less"} of this minute than was delivered, and no event explains that.`,
  );
  printPlan(io, plan);
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
