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
import { only, snakeCased } from "./print.ts";

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

export const printEvents = ({ printList }: Cli, events: readonly ListedMeterEvent[]): void => {
  const shown = events.map((event) =>
    Object.assign(presentMeterEvent(event), {
      state: event.isLate ? "late" : event.failure === "difference" ? "difference" : event.state,
    }),
  );
  const columns = ["item", "state", "account_name", "mode", "kind", "at", "quantity", "reason"];
  printList(events.map(presentMeterEvent), only(shown, columns));
};

/** Returns the command that removes the cause of a refusal; null if none is known. Stripe's errors differ by their text only. */
const mendingCommand = (accountId: string, reason: string | null): string | null => {
  if (/customer/iu.test(reason ?? "")) {
    return `impact org update ${accountId} --stripe-customer cus_…`;
  }
  return /meter|configured/iu.test(reason ?? "") ? "impact doctor" : null;
};

export const SENT_BY_WORKERS =
  "Nothing to do: the workers send it, or ask Stripe first whether it has it.";

const NOT_SENT = {
  too_old: "It is older than Stripe accepts, so it cannot be sent.",
  late: "No invoice at Stripe contains it.",
  credit_owed: "Stripe has nothing to take back, so the customer has paid too much.",
} as const;

/** Returns the commands that an operator runs next, or null if the usage settles by itself, and all that settles it, in steps. */
export const adviseOn = (
  usage: UsageAttention,
): { readonly next: string | null; readonly plan: readonly string[] } => {
  const { cause, accountId, items, firstIds, units, reason } = usage;
  const names = items === firstIds.length ? firstIds.join(" ") : accountId;
  const retry = `impact usage retry ${names}`;
  const [document, bills] =
    documentFor(units) === "invoice_item"
      ? ["--invoice-item ii_…", "bills"]
      : ["--credit-note cn_…", "returns"];
  const close = `impact usage close ${names} ${document} --reason TEXT`;
  const closing = [
    `If a document ${bills} it: ${close}`,
    `If nothing does: impact usage close ${names} --never-bill --reason TEXT`,
  ];
  const count = counted(Math.abs(units), "unit");
  const sending = [
    `${units > 0 ? `Send ${count} to Stripe` : `Take ${count} back at Stripe`}: ${retry}`,
    `To see first what that would do: ${retry} --dry-run`,
    ...closing,
  ];
  switch (cause) {
    case "refused": {
      const mend = mendingCommand(accountId, reason);
      const plan = [`Remove the cause: ${mend ?? "see the reason"}`, ...sending];
      return { next: mend === null ? retry : `${mend}; ${retry}`, plan };
    }
    case "difference":
      return { next: retry, plan: sending };
    case "unclear":
      return {
        next: `impact usage explain ${items === 1 ? names : accountId}`,
        plan: [
          `Have Stripe asked whether it has it; if not, it is sent: ${retry}`,
          `If it stays unclear, look at Stripe, and answer: ${retry} --delivered, or --absent`,
        ],
      };
    case "too_old":
    case "late":
    case "credit_owed":
      return { next: close, plan: [NOT_SENT[cause], ...closing] };
    case "trouble":
    case "asking":
      return { next: null, plan: [SENT_BY_WORKERS] };
  }
};

export const nameOfCause = (cause: UsageAttention["cause"]): string =>
  cause === "trouble" ? "in trouble" : cause.replace("_", " ");

export const presentAttention = (attention: UsageAttention) => {
  const { oldestSecond, ...fields } = attention;
  return {
    ...snakeCased(fields),
    needs_person: needsOperator(attention.cause),
    oldest_at: timeOf(oldestSecond),
    next: adviseOn(attention).next,
  };
};

const ATTENTION_COLUMNS = "account_name kind cause units oldest_at items first_ids reason".split(
  " ",
);

/** Prints usage that needs a person, each with the next command, and below it what settles by itself. */
export const printAttention = (
  { printText, printObjects }: Cli,
  attention: readonly UsageAttention[],
): void => {
  const print = (title: string, rows: readonly UsageAttention[]): void => {
    printText(title);
    const shown = rows.map((row) =>
      Object.assign(presentAttention(row), { cause: nameOfCause(row.cause) }),
    );
    printObjects(only(shown, ATTENTION_COLUMNS));
  };
  const needing = attention.filter(({ cause }) => needsOperator(cause));
  const settling = attention.filter(({ cause }) => !needsOperator(cause));
  if (needing.length > 0) {
    print("Needs a person:", needing);
    printText("\nNext:");
    for (const each of needing) {
      printText(`  ${each.accountName}, ${nameOfCause(each.cause)}: ${adviseOn(each).next}`);
    }
  }
  if (settling.length > 0) {
    print(`${needing.length > 0 ? "\n" : ""}Settles by itself:`, settling);
  }
};

export const sayHold = ({ say }: Cli, hold: Hold | null): void => {
  if (hold) {
    say(`Nothing is sent: ${describeHold(hold)}. ${HOLD_ADVICE}`);
  }
};
