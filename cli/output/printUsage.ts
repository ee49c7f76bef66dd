import { describeHold, HOLD_ADVICE } from "../../modules/billing/deployment.rules.ts";
import type { Hold } from "../../modules/billing/deployment.rules.ts";
import type { ListedMeterEvent } from "../../modules/billing/meterEventReports.sql.ts";
import { documentFor } from "../../modules/billing/meterEvents.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { needsOperator } from "../../modules/billing/usageAttention.rules.ts";
import type { UsageAttention } from "../../modules/billing/usageAttention.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { printRecord, printRows, printText } from "./print.ts";
import type { Columns } from "./print.ts";

/** Returns a meter event as `--json` prints it. */
export const presentMeterEvent = (event: ListedMeterEvent) => ({
  item: `E${event.id}`,
  state: event.state,
  failure: event.failure,
  late: event.isLate,
  account_id: event.accountId,
  account_name: event.accountName,
  mode: event.mode,
  meter: event.kind,
  at: timeOf(event.second),
  quantity: event.quantity,
  identifier: event.identifier,
  processor: event.processor,
  customer_id: event.customerId,
  attempts: event.attempts,
  first_attempt_at: event.firstAttemptAt,
  next_attempt_at: event.retryAt,
  may_be_delivered: event.mayBeDelivered,
  asking_since: event.askingSince,
  waits_for: event.waitsFor === null ? null : `E${event.waitsFor}`,
  reason: event.lastError,
  sealed_at: event.sealedAt,
  settled_at: event.settledAt,
  document: event.documentKind,
  document_reference: event.documentReference,
});

/** The most items that a command names one by one; more are named by their organization. */
const NAMED_ITEMS = 5;

/** The options that name the document which bills or returns units. */
export const documentOption = (units: number): string =>
  documentFor(units) === "invoice_item" ? "--invoice-item ii_…" : "--credit-note cn_…";

/** Returns the command that an operator runs next; null if the usage settles by itself. */
const nextCommand = ({
  cause,
  accountId,
  items,
  firstIds,
  units,
}: UsageAttention): string | null => {
  const names = items <= NAMED_ITEMS ? firstIds.join(" ") : accountId;
  switch (cause) {
    case "refused":
    case "difference":
      return `impact usage retry ${names}`;
    case "unclear":
      return `impact usage explain ${items === 1 ? names : accountId}`;
    case "too_old":
    case "late":
    case "credit_owed":
      return `impact usage close ${names} ${documentOption(units)} --reason TEXT`;
    case "trouble":
    case "asking":
      return null;
  }
};

export const CAUSES: Readonly<Record<UsageAttention["cause"], string>> = {
  refused: "refused",
  too_old: "too old",
  unclear: "unclear",
  credit_owed: "credit owed",
  late: "late",
  difference: "difference",
  trouble: "in trouble",
  asking: "asking",
};

export const presentAttention = (attention: UsageAttention) => ({
  account_id: attention.accountId,
  account_name: attention.accountName,
  meter: attention.kind,
  cause: attention.cause,
  needs_person: needsOperator(attention.cause),
  items: attention.items,
  units: attention.units,
  oldest_at: timeOf(attention.oldestSecond),
  first_items: attention.firstIds,
  reason: attention.reason,
  next: nextCommand(attention),
});

const ATTENTION_COLUMNS: Columns<UsageAttention> = {
  organization: ({ accountName }) => accountName,
  meter: ({ kind }) => kind,
  cause: ({ cause }) => CAUSES[cause],
  units: ({ units }) => units,
  oldest: ({ oldestSecond }) => timeOf(oldestSecond),
  items: ({ items, firstIds }) =>
    items > firstIds.length
      ? `${firstIds.join(" ")} and ${counted(items - firstIds.length, "other")}`
      : firstIds.join(" "),
  reason: ({ reason }) => reason,
};

/** Prints usage that needs a person, each with the next command, and below it what settles by itself. */
export const printAttention = (io: Io, attention: readonly UsageAttention[]): void => {
  const needing = attention.filter(({ cause }) => needsOperator(cause));
  const settling = attention.filter(({ cause }) => !needsOperator(cause));
  if (needing.length > 0) {
    printText(io, "Needs a person:");
    printRows(io, needing, ATTENTION_COLUMNS);
    printText(io, "\nNext:");
    for (const each of needing) {
      printText(io, `  ${each.accountName}, ${CAUSES[each.cause]}: ${nextCommand(each)}`);
    }
  }
  if (settling.length > 0) {
    printText(io, `${needing.length > 0 ? "\n" : ""}Settles by itself:`);
    printRows(io, settling, ATTENTION_COLUMNS);
  }
};

/** Says why nothing is sent, if usage is held. */
export const sayHold = (io: Io, hold: Hold | null): void => {
  if (hold) {
    say(io, `Nothing is sent: ${describeHold(hold)}. ${HOLD_ADVICE}`);
  }
};

/** Prints everything about a meter event. */
export const printEvent = (io: Io, event: ListedMeterEvent): void => {
  const optional = {
    failure: event.failure,
    "waits for": event.waitsFor === null ? null : `E${event.waitsFor}`,
    "asking since": event.askingSince,
    "next attempt": event.retryAt,
    document: event.documentReference,
  };
  printRecord(io, {
    event: `E${event.id}`,
    organization: event.accountName,
    state: event.isLate ? `${event.state}, late` : event.state,
    meter: event.kind,
    at: timeOf(event.second),
    quantity: event.quantity,
    customer: event.customerId,
    identifier: event.identifier,
    attempts: event.attempts,
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== null)),
    reason: event.lastError,
    sealed: event.sealedAt,
    settled: event.settledAt,
  });
};

/** Prints the steps of a plan. */
export const printPlan = (io: Io, steps: readonly string[]): void => {
  printText(io, "\nPlan:");
  for (const [index, step] of steps.entries()) {
    printText(io, `  ${index + 1}. ${step}`);
  }
};
