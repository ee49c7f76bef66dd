import { describeHold, HOLD_ADVICE } from "../../modules/billing/deployment.rules.ts";
import type { Hold } from "../../modules/billing/deployment.rules.ts";
import type {
  ListedMeterEvent,
  UsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import { documentFor, nameOf, needsOperator } from "../../modules/billing/meterEvents.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import type { Cli } from "../command.ts";
import { snakeCased } from "./print.ts";

/** Returns a meter event as `--json` prints it. */
export const presentMeterEvent = ({
  id,
  second,
  waitsFor,
  mayBeDelivered,
  lastError,
  ...event
}: ListedMeterEvent) => ({
  item: nameOf({ id, failure: event.failure }),
  state: event.state,
  account_name: event.accountName,
  at: timeOf(second),
  reason: lastError,
  waits_for: waitsFor === null ? null : `E${waitsFor}`,
  ...snakeCased(event),
  // Of what is decided, the state says it.
  may_be_delivered: event.state === "pending" || event.state === "failed" ? mayBeDelivered : null,
});

/** Prints events, differences among them. */
export const printEvents = ({ printList }: Cli, events: readonly ListedMeterEvent[]): void => {
  printList(
    events.map(presentMeterEvent),
    events.map((event) => ({
      item: nameOf(event),
      state: event.isLate ? "late" : event.failure === "difference" ? "difference" : event.state,
      organization: event.accountName,
      mode: event.mode,
      meter: event.kind,
      at: timeOf(event.second),
      quantity: event.quantity,
      reason: event.lastError,
    })),
  );
};

/** Returns the command that closes usage with the document which bills or returns its units. */
export const closingCommand = (names: string, units: number): string =>
  `impact usage close ${names} ${documentFor(units) === "invoice_item" ? "--invoice-item ii_…" : "--credit-note cn_…"} --reason TEXT`;

/** Returns the command that removes the cause of a refusal; null if none is known. Stripe's errors differ by their text only. */
export const mendingCommand = (accountId: string, reason: string | null): string | null => {
  if (/customer/iu.test(reason ?? "")) {
    return `impact org update ${accountId} --stripe-customer cus_…`;
  }
  return /meter|configured/iu.test(reason ?? "") ? "impact doctor" : null;
};

/** Returns the commands that an operator runs next; null if the usage settles by itself. */
const nextCommand = (attention: UsageAttention): string | null => {
  const { cause, accountId, items, firstIds, units } = attention;
  const names = items === firstIds.length ? firstIds.join(" ") : accountId;
  switch (cause) {
    case "refused":
      return [mendingCommand(accountId, attention.reason) ?? [], `impact usage retry ${names}`]
        .flat()
        .join("; ");
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
export const printAttention = (
  { printText, printObjects }: Cli,
  attention: readonly UsageAttention[],
): void => {
  const print = (title: string, rows: readonly UsageAttention[]): void => {
    printText(title);
    printObjects(
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
    printText("\nNext:");
    for (const each of needing) {
      printText(`  ${each.accountName}, ${nameOfCause(each.cause)}: ${nextCommand(each)}`);
    }
  }
  if (settling.length > 0) {
    print(`${needing.length > 0 ? "\n" : ""}Settles by itself:`, settling);
  }
};

/** Says why nothing is sent, if usage is held. */
export const sayHold = ({ say }: Cli, hold: Hold | null): void => {
  if (hold) {
    say(`Nothing is sent: ${describeHold(hold)}. ${HOLD_ADVICE}`);
  }
};
