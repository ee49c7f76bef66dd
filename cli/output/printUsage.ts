import { describeHold, HOLD_ADVICE } from "../../modules/billing/deployment.rules.ts";
import type { Hold } from "../../modules/billing/deployment.rules.ts";
import type {
  ListedMeterEvent,
  UsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import { documentFor, needsOperator } from "../../modules/billing/meterEvents.rules.ts";
import { LONGEST_USAGE_LAG_MS } from "../../modules/billing/usage.rules.ts";
import type { UsageDifference } from "../../modules/billing/reconciliation/usageDifferences.sql.ts";
import { minuteOf, timeOf } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { formatTime } from "./formatTable.ts";
import { printObjects, printText, snakeCased } from "./print.ts";

/** Returns a meter event as `--json` prints it. */
export const presentMeterEvent = ({
  id,
  second,
  waitsFor,
  lastError,
  ...event
}: ListedMeterEvent) => ({
  item: `E${id}`,
  state: event.state,
  account_name: event.accountName,
  kind: event.kind,
  mode: event.mode,
  quantity: event.quantity,
  at: timeOf(second),
  reason: lastError,
  is_late: event.isLate,
  document_reference: event.documentReference,
  waits_for: waitsFor === null ? null : `E${waitsFor}`,
  ...snakeCased(event),
});

/** Says by how many units Stripe's sum of a minute differs, such as "3 units more". */
const describeUnits = (units: number): string =>
  `${counted(Math.abs(units), "unit")} ${units > 0 ? "more" : "less"}`;

/**
 * Says by how many units Stripe's sum differs, or differed before it was settled. What was found while the sums could lag may be
 * no difference.
 */
export const describeDifference = ({
  state,
  units,
  customerId,
  minute,
  foundAt,
  closedBy,
  reason,
}: UsageDifference): string => {
  if (state !== "open") {
    const how =
      state === "sent" ? `had them ${units > 0 ? "taken back" : "sent"}` : "accepted that";
    return `Stripe had ${describeUnits(units)} of ${customerId} than was delivered, until ${closedBy} ${how}${reason === null ? "" : ` (${reason})`}.`;
  }
  const completeAt = new Date(minuteOf(minute).end * 1000 + LONGEST_USAGE_LAG_MS);
  const lag =
    foundAt < completeAt
      ? ` Stripe's sums lag for up to 15 minutes, and it was found within them: compare again after ${formatTime(completeAt)}.`
      : "";
  return `Stripe has ${describeUnits(units)} of ${customerId} than was delivered, and no event explains that.${lag}`;
};

/** Returns a difference as `--json` prints it. */
export const presentDifference = (difference: UsageDifference) => {
  const { id, state, second, minute, units, reason: _reason, ...given } = difference;
  return {
    item: `D${id}`,
    state: state === "open" ? "difference" : state,
    account_name: given.accountName,
    kind: given.kind,
    mode: "live",
    quantity: units,
    at: timeOf(second),
    reason: describeDifference(difference),
    minute: timeOf(minute),
    ...snakeCased(given),
  };
};

/** The most items that a command names one by one; more are named by their organization. */
const NAMED_ITEMS = 5;

/** The options that name the document which bills or returns units. */
export const documentOption = (units: number): string =>
  documentFor(units) === "invoice_item" ? "--invoice-item ii_…" : "--credit-note cn_…";

/** Returns the command that removes the cause of a refusal; null if none is known. Stripe's errors differ by their text only. */
export const mendingCommand = ({
  accountId,
  reason,
}: Pick<UsageAttention, "accountId" | "reason">): string | null => {
  if (/customer/iu.test(reason ?? "")) {
    return `impact org update ${accountId} --stripe-customer cus_…`;
  }
  return /meter|configured/iu.test(reason ?? "") ? "impact doctor" : null;
};

/** Returns the commands that an operator runs next; null if the usage settles by itself. */
const nextCommand = (attention: UsageAttention): string | null => {
  const { cause, accountId, items, firstIds, units } = attention;
  const names = items <= NAMED_ITEMS ? firstIds.join(" ") : accountId;
  switch (cause) {
    case "refused":
      return [mendingCommand(attention) ?? [], `impact usage retry ${names}`].flat().join("; ");
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

export const nameOfCause = (cause: UsageAttention["cause"]): string =>
  cause === "trouble" ? "in trouble" : cause.replace("_", " ");

export const presentAttention = ({ oldestSecond, ...attention }: UsageAttention) => ({
  ...snakeCased(attention),
  needs_person: needsOperator(attention.cause),
  oldest_at: timeOf(oldestSecond),
  next: nextCommand({ ...attention, oldestSecond }),
});

/** Returns such usage as text shows it. */
const textOf = (attention: UsageAttention) => {
  const { items, firstIds } = attention;
  return {
    organization: attention.accountName,
    meter: attention.kind,
    cause: nameOfCause(attention.cause),
    units: attention.units,
    oldest: timeOf(attention.oldestSecond),
    items:
      items > firstIds.length
        ? `${firstIds.join(" ")} and ${counted(items - firstIds.length, "other")}`
        : firstIds.join(" "),
    reason: attention.reason,
  };
};

/** Prints usage that needs a person, each with the next command, and below it what settles by itself. */
export const printAttention = (io: Io, attention: readonly UsageAttention[]): void => {
  const needing = attention.filter(({ cause }) => needsOperator(cause));
  const settling = attention.filter(({ cause }) => !needsOperator(cause));
  if (needing.length > 0) {
    printText(io, "Needs a person:");
    printObjects(io, needing.map(textOf));
    printText(io, "\nNext:");
    for (const each of needing) {
      printText(io, `  ${each.accountName}, ${nameOfCause(each.cause)}: ${nextCommand(each)}`);
    }
  }
  if (settling.length > 0) {
    printText(io, `${needing.length > 0 ? "\n" : ""}Settles by itself:`);
    printObjects(io, settling.map(textOf));
  }
};

/** Says why nothing is sent, if usage is held. */
export const sayHold = (io: Io, hold: Hold | null): void => {
  if (hold) {
    say(io, `Nothing is sent: ${describeHold(hold)}. ${HOLD_ADVICE}`);
  }
};

/** Prints the steps of a plan. */
export const printPlan = (io: Io, steps: readonly string[]): void => {
  if (steps.length > 0) {
    printText(io, "\nPlan:");
  }
  for (const [index, step] of steps.entries()) {
    printText(io, `  ${index + 1}. ${step}`);
  }
};
