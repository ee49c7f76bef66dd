import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import type { Period } from "../../modules/billing/usage.rules.ts";
import {
  listSealingsOfSecond,
  listUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import type { ListedMeterEvent } from "../../modules/billing/meterEventReports.sql.ts";
import { retryUsage, sendDifference } from "../../modules/billing/reconciliation/retryUsage.ts";
import type { Retry } from "../../modules/billing/reconciliation/retryUsage.rules.ts";
import { readStatement } from "../../modules/billing/readStatement.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { listRegistrationsOfMeterEvent } from "../../modules/support/recordLookups.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
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
} from "../output/printUsage.ts";
import { CURRENT, parsePeriodOrCurrent } from "../timeRange.ts";
import { findUsageName, USAGE_NAME } from "../usageNames.ts";
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
};

const RETRIES: Readonly<Record<Retry, readonly string[]>> = {
  send: [
    "Remove the cause.",
    "Send it again under a new identifier: impact usage retry EVENT",
    "If it can never be sent, bill it by hand: impact usage close EVENT DOCUMENT --reason TEXT",
  ],
  ask: [
    "Have Stripe asked whether it has it; what it lacks is sent: impact usage retry EVENT",
    "If it stays unclear, look at Stripe, and answer: impact usage retry EVENT --delivered, or --absent",
  ],
  record: [],
};

/** Returns what settles a failed event: a retry, or what it says instead. */
const planFailed = async (
  context: CliContext,
  { id, quantity }: ListedMeterEvent,
): Promise<readonly string[]> => {
  try {
    const deps = await openBillingChange(context, {});
    const { retry } = await retryUsage(deps, id, { isDryRun: true });
    return RETRIES[retry].map((step) =>
      step.replace("EVENT", `E${id}`).replace("DOCUMENT", documentOption(quantity)),
    );
  } catch (error) {
    if (!(error instanceof DomainError)) {
      throw error;
    }
    return [`A retry is refused: ${error.message}.`];
  }
};

const planEvent = (
  context: CliContext,
  event: ListedMeterEvent,
): Promise<readonly string[]> | readonly string[] => {
  const { id, state, quantity, isLate, documentReference, askingSince, attempts } = event;
  if (state === "failed") {
    return planFailed(context, event);
  }
  if (state === "pending") {
    return [
      askingSince !== null
        ? "Nothing to do: Stripe is asked whether it has it, when its sums can no longer lag."
        : attempts > 0
          ? "Nothing to do: the workers try again."
          : "Nothing to do: the workers send it.",
    ];
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

/** Returns what settles an open difference. Stripe is read, because the difference may be gone. */
const planDifference = async (
  context: CliContext,
  { id, units }: { readonly id: bigint; readonly units: number },
): Promise<readonly string[]> => {
  const close = `impact usage close D${id} ${documentOption(-units)} --reason TEXT`;
  try {
    const deps = await openBillingChange(context, {});
    await sendDifference(deps, id, { reason: "", by: "", isDryRun: true });
    const sent = counted(Math.abs(units), "unit");
    return [
      `${units > 0 ? `Take ${sent} back at Stripe` : `Send ${sent} to Stripe`}: impact usage retry D${id}`,
      `Or, if a document corrects it: ${close}`,
      `Or, if it is right as it is: impact usage close D${id} --never-bill --reason TEXT`,
    ];
  } catch (error) {
    if (!(error instanceof DomainError)) {
      throw error;
    }
    return [`A retry is refused: ${error.message}.`, `To accept it: ${close}, or --never-bill`];
  }
};

const explainDifference = async (context: CliContext, id: bigint): Promise<void> => {
  const { io, connections } = context;
  const difference = await getDifference(await connections.database(), id);
  const plan =
    difference.state === "open" ? await planDifference(context, difference) : ["Nothing to do."];
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
