import { describeHold, HOLD_ADVICE } from "../../modules/billing/deployment.rules.ts";
import type { Hold } from "../../modules/billing/deployment.rules.ts";
import type {
  ListedMeterEvent,
  UsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import { documentFor, needsOperator } from "../../modules/billing/meterEvents.rules.ts";
import type { UsageDifference } from "../../modules/billing/reconciliation/usageDifferences.sql.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { printList, printObjects, printText, snakeCased } from "./print.ts";

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

/** Says by how many units Stripe's sum differs, or differed before it was settled. */
export const describeDifference = ({
  state,
  units,
  customerId,
  closedBy,
  reason,
}: UsageDifference): string => {
  const isOpen = state === "open";
  const differs = `Stripe ${isOpen ? "has" : "had"} ${counted(Math.abs(units), "unit")} ${units > 0 ? "more" : "less"} of ${customerId} than was delivered`;
  return isOpen
    ? `${differs}, and no event explains that.`
    : `${differs}; ${state} by ${closedBy}${reason === null ? "" : `: ${reason}`}.`;
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

/** Prints events and differences. */
export const printItems = (
  io: Io,
  items: readonly ReturnType<typeof presentMeterEvent | typeof presentDifference>[],
): void =>
  printList(
    io,
    items,
    items.map((row) => ({
      item: row.item,
      state: "is_late" in row && row.is_late ? "late" : row.state,
      organization: row.account_name,
      mode: row.mode,
      meter: row.kind,
      at: row.at,
      quantity: row.quantity,
      reason: row.reason,
    })),
  );

/** The most items that a command names one by one; more are named by their organization. */
const NAMED_ITEMS = 5;

/** Returns the command that closes usage with the document which bills or returns its units. */
export const closingCommand = (names: string, units: number): string =>
  `impact usage close ${names} ${documentFor(units) === "invoice_item" ? "--invoice-item ii_…" : "--credit-note cn_…"} --reason TEXT`;

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
      return closingCommand(names, units);
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

/** Prints usage that needs a person, each with the next command, and below it what settles by itself. */
export const printAttention = (io: Io, attention: readonly UsageAttention[]): void => {
  const print = (title: string, rows: readonly UsageAttention[]): void => {
    printText(io, title);
    printObjects(
      io,
      rows.map(({ items, firstIds, ...row }) => ({
        organization: row.accountName,
        meter: row.kind,
        cause: nameOfCause(row.cause),
        units: row.units,
        oldest: timeOf(row.oldestSecond),
        items: `${firstIds.join(" ")}${items > firstIds.length ? ` and ${counted(items - firstIds.length, "other")}` : ""}`,
        reason: row.reason,
      })),
    );
  };
  const needing = attention.filter(({ cause }) => needsOperator(cause));
  const settling = attention.filter(({ cause }) => !needsOperator(cause));
  if (needing.length > 0) {
    print("Needs a person:", needing);
    printText(io, "\nNext:");
    for (const each of needing) {
      printText(io, `  ${each.accountName}, ${nameOfCause(each.cause)}: ${nextCommand(each)}`);
    }
  }
  if (settling.length > 0) {
    print(`${needing.length > 0 ? "\n" : ""}Settles by itself:`, settling);
  }
};

/** Says why nothing is sent, if usage is held. */
export const sayHold = (io: Io, hold: Hold | null): void => {
  if (hold) {
    say(io, `Nothing is sent: ${describeHold(hold)}. ${HOLD_ADVICE}`);
  }
};
