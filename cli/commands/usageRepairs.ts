import { Option } from "@commander-js/extra-typings";
import { z } from "zod";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { listOpenUsage } from "../../modules/billing/meterEventReports.sql.ts";
import {
  CLOSED_CAUSES,
  RETRIED_CAUSES,
  nameOf,
  namesOf,
} from "../../modules/billing/meterEvents.rules.ts";
import type { BillingDocument } from "../../modules/billing/meterEvents.rules.ts";
import { closeUsage, retryEach } from "../../modules/billing/reconciliation/repairUsage.ts";
import type { RetriedItem } from "../../modules/billing/reconciliation/repairUsage.ts";
import type {
  OperatorAnswer,
  Retry,
} from "../../modules/billing/reconciliation/repairUsage.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { collect, parseReason, parseSearchText, parserOf, trimmed } from "../arguments.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { OPERATOR, REASON } from "../command.ts";
import type { Define } from "../command.ts";
import { CommandError, EXIT, exitCodeOf } from "../exitCodes.ts";
import { sayHold } from "../output/printUsage.ts";
import { PERIOD, spanOf } from "../timeRange.ts";
import { USAGE_NAME, selectUsage } from "../usageNames.ts";

/** @throws CommandError if something was refused; "not found" only if nothing was found */
const requireSuccess = (retried: readonly RetriedItem[]): void => {
  const codes = retried.map(({ retry }) =>
    typeof retry === "string" ? EXIT.ok : exitCodeOf(retry),
  );
  const { length: refused } = codes.filter((code) => code !== EXIT.ok);
  if (refused > 0) {
    throw new CommandError(
      codes.every((code) => code === EXIT.notFound) ? EXIT.notFound : EXIT.failed,
      `${refused} of ${retried.length} could not be retried.`,
    );
  }
};

const EVENT_NAME = /^[Ee]\d+$/u;

/** Returns what the operator answers for Stripe; null if it is to be asked. */
const readAnswer = (
  names: readonly string[],
  options: { readonly all?: true; readonly delivered?: true; readonly absent?: true },
): OperatorAnswer | null => {
  const { all = false, delivered, absent } = options;
  if (names.length > 0 === all) {
    throw invalidRequest("Name what to retry, or pass --all.");
  }
  const answer = delivered ? "delivered" : absent ? "absent" : null;
  if (answer !== null && (all || !names.every((name) => EVENT_NAME.test(name)))) {
    throw invalidRequest(
      "--delivered and --absent need the events whose outcome you have checked, such as E5.",
    );
  }
  return answer;
};

const RESULTS: Readonly<Record<Retry, string>> = {
  send: "sent again",
  wait: "waits for its usage",
  ask: "Stripe is asked first",
  record: "recorded as delivered",
  too_old: "too old to be sent; close it with a document",
};

/** Returns what a command has done, or would do, with an event. Units that are negative are taken back. */
const presentRetried = ({ name, retry, units }: RetriedItem) =>
  typeof retry === "string"
    ? {
        item: name,
        units,
        result: retry === "send" && units < 0 ? "taken back" : RESULTS[retry],
        reason: null,
      }
    : { item: name, units: null, result: "refused", reason: retry.message };

const RETRY_HELP = `
Settles what needs no decision. Refused usage is sent again under a new identifier. About
usage that Stripe may have, Stripe is asked first: a worker compares the sums of its minute,
at once or when they can no longer lag, and sends what is missing. The units of a difference
are sent or taken back. An organization's name retries all of its open usage. Repeating the
command is safe.
--delivered and --absent answer for Stripe after you have looked there: a wrong "absent"
bills the usage twice, a wrong "delivered" never bills it. What another customer of the
organization has becomes differences.`;

export const addRetryCommand: Define = (usage, cli) => {
  usage
    .command("retry")
    .description("Retry failed usage and differences")
    .argument("[names...]", USAGE_NAME, collect(parseSearchText))
    .option("--all", "everything that is open")
    .addOption(new Option("--delivered", "Stripe has the events").conflicts("absent"))
    .option("--absent", "Stripe does not have the events")
    .option("--dry-run", "show what would be done")
    .option(...REASON)
    .option(...OPERATOR)
    .addHelpText("after", RETRY_HELP)
    .action(async (names = [], options) => {
      const answer = readAnswer(names, options);
      const deps = await cli.openBillingChange(options);
      const isDryRun = options.dryRun === true;
      const ids = await (options.all
        ? listOpenUsage(deps.db, RETRIED_CAUSES)
        : selectUsage(deps.db, names, RETRIED_CAUSES));
      const retried = await retryEach(deps, ids, { answer, isDryRun });
      const shown = retried.map(presentRetried);
      cli.printResult({ dry_run: isDryRun, items: shown }, () =>
        shown.length === 0
          ? cli.say("Nothing has failed; there is nothing to retry.")
          : cli.printObjects(shown),
      );
      if (isDryRun) {
        cli.say("Nothing was changed.");
      } else if (retried.length > 0) {
        sayHold(cli, (await readDeployment(deps.db)).hold);
      }
      requireSuccess(retried);
    });
};

/** Returns the document that an operator names; null: the usage is never billed. Commander accepts only one of the options. */
const readDocument = (
  invoiceItem: string | undefined,
  creditNote: string | undefined,
  isNeverBilled: boolean,
): BillingDocument | null => {
  const reference = invoiceItem ?? creditNote;
  if (reference === undefined && !isNeverBilled) {
    throw invalidRequest(
      "Say how the usage is billed: --invoice-item, --credit-note or --never-bill.",
    );
  }
  const kind = invoiceItem === undefined ? "credit_note" : "invoice_item";
  return reference === undefined ? null : { kind, reference };
};

const CLOSE_HELP = `
One document closes all failed and late usage of an organization, with its refunds; --period
limits it. The sum is shown, and checked against --units and the kind of the document: an
invoice item bills, a credit note returns. What is closed is never sent. A difference that is
closed is accepted. --never-bill is for usage that nobody pays for, and for late usage that is
on an invoice after all.`;

/** The id of a document at Stripe. */
const parseDocument = trimmed(200);

const parseUnits = parserOf(
  z
    .string()
    .regex(/^-?\d{1,16}$/u)
    .transform(Number)
    .pipe(z.int()),
  "a whole number, with a minus sign for what is returned",
);

/** They are locked, kept in memory and printed. */
const MAXIMUM_CLOSED = 50_000;

export const addCloseCommand: Define = (usage, cli) => {
  usage
    .command("close")
    .description("Close usage that a document bills or returns, or that is never billed")
    .argument("<names...>", USAGE_NAME, collect(parseSearchText))
    .addOption(
      new Option("--invoice-item <id>", "invoice item that bills the usage")
        .argParser(parseDocument)
        .conflicts(["creditNote", "neverBill"]),
    )
    .addOption(
      new Option("--credit-note <id>", "credit note that returns the units")
        .argParser(parseDocument)
        .conflicts("neverBill"),
    )
    .option("--never-bill", "nothing bills it")
    .requiredOption("--reason <text>", "reason, recorded with the usage", parseReason)
    .option("--units <n>", "units of the document; refused if they add up to others", parseUnits)
    .option(...PERIOD)
    .addOption(new Option("--meter <meter>", "only usage of this meter").choices(KINDS))
    .option(...OPERATOR)
    .option("--dry-run", "show what would be closed")
    .addHelpText("after", CLOSE_HELP)
    .action(async (names, options) => {
      const { invoiceItem, creditNote, neverBill = false, units: expectedUnits = null } = options;
      const document = readDocument(invoiceItem, creditNote, neverBill);
      const isDryRun = options.dryRun === true;
      const deps = await cli.openBillingChange(options);
      const filter = { kind: options.meter ?? null, span: spanOf(options.period) };
      const selected = await selectUsage(deps.db, names, CLOSED_CAUSES, filter);
      const unclear = (await selectUsage(deps.db, names, ["unclear"], filter)).filter(
        (id) => !selected.includes(id),
      );
      if (unclear.length > 0) {
        const left = namesOf(unclear.map((id) => ({ id })));
        cli.say(`Left out, because Stripe may have it: ${left}. Retry it first.`);
      }
      if (selected.length === 0) {
        throw new CommandError(EXIT.failed, "Nothing of that is failed or late.");
      }
      if (selected.length > MAXIMUM_CLOSED) {
        throw invalidRequest(
          `These are ${selected.length} events, and at most ${MAXIMUM_CLOSED} are closed at once. Close them in parts, with --period.`,
        );
      }
      const closing = { document, expectedUnits, isDryRun };
      const { events, units } = await closeUsage(deps, selected, closing);
      const shown = events.map((event) => ({
        item: nameOf(event),
        state: event.state,
        meter: event.kind,
        at: timeOf(event.second),
        customer: event.customerId,
        units: event.quantity,
      }));
      const { kind = null, reference = null } = document ?? {};
      const named = { dry_run: isDryRun, document: kind, document_reference: reference };
      cli.printResult({ ...named, units, items: shown }, () => {
        cli.printObjects(shown);
        const billed = units < 0 ? "returned" : "billed";
        const how = reference === null ? `never ${billed}` : `${billed} by ${reference}`;
        const what = `${counted(Math.abs(units), "unit")} ${how}.`;
        cli.say(
          isDryRun ? `This would be closed: ${what} Nothing was changed.` : `Closed: ${what}`,
        );
      });
    });
};
