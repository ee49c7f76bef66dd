import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { z } from "zod";
import type { Period } from "../../modules/billing/usage.rules.ts";
import { CLOSED_CAUSES, nameOf, namesOf } from "../../modules/billing/meterEvents.rules.ts";
import type { BillingDocument } from "../../modules/billing/meterEvents.rules.ts";
import { closeUsage } from "../../modules/billing/reconciliation/closeUsage.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { collect, parseReason, parseSearchText, parserOf, trimmed } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openBillingChange, operatorOption } from "../operator.ts";
import type { ReasonedOptions } from "../operator.ts";
import { printObjects, printResult } from "../output/print.ts";
import { periodOption, spanOf } from "../timeRange.ts";
import { selectUsage, USAGE_NAME } from "../usageNames.ts";

type CloseOptions = ReasonedOptions & {
  readonly invoiceItem?: string;
  readonly creditNote?: string;
  readonly neverBill?: true;
  readonly units?: number;
  readonly period?: Period;
  readonly meter?: Kind;
  readonly dryRun?: true;
};

/** Returns the document that an operator names; null: the usage is never billed. Commander accepts only one of the options. */
const readDocument = ({
  invoiceItem,
  creditNote,
  neverBill,
}: CloseOptions): BillingDocument | null => {
  const reference = invoiceItem ?? creditNote;
  if (reference === undefined && !neverBill) {
    throw new CommandError(
      EXIT.usage,
      "Say how the usage is billed: --invoice-item, --credit-note or --never-bill.",
    );
  }
  const kind = invoiceItem === undefined ? "credit_note" : "invoice_item";
  return reference === undefined ? null : { kind, reference };
};

const close = async (
  context: CliContext,
  names: readonly string[],
  options: CloseOptions,
): Promise<void> => {
  const { io } = context;
  const document = readDocument(options);
  const deps = await openBillingChange(context, options);
  const filter = { kind: options.meter ?? null, span: spanOf(options.period) };
  const selected = await selectUsage(deps.db, names, CLOSED_CAUSES, filter);
  const unclear = (await selectUsage(deps.db, names, ["unclear"], filter)).filter(
    (id) => !selected.includes(id),
  );
  if (unclear.length > 0) {
    const left = namesOf(unclear.map((id) => ({ id })));
    say(io, `Left out, because Stripe may have it: ${left}. Retry it first.`);
  }
  if (selected.length === 0) {
    throw new CommandError(EXIT.failed, "Nothing of that is failed or late.");
  }
  const isDryRun = options.dryRun === true;
  const expectedUnits = options.units ?? null;
  const { events, units } = await closeUsage(deps, selected, { document, expectedUnits, isDryRun });
  const shown = events.map((event) => ({
    item: nameOf(event),
    state: event.state,
    meter: event.kind,
    at: timeOf(event.second),
    customer: event.customerId,
    units: event.quantity,
  }));
  const printed = {
    dry_run: isDryRun,
    document: document?.kind ?? null,
    document_reference: document?.reference ?? null,
    units,
    items: shown,
  };
  printResult(io, printed, () => {
    printObjects(io, shown);
    const how = document && `${units < 0 ? "returned" : "billed"} by ${document.reference}`;
    const what = `${counted(Math.abs(units), "unit")} ${how ?? "never billed"}.`;
    say(io, isDryRun ? `This would be closed: ${what} Nothing was changed.` : `Closed: ${what}`);
  });
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

export const addCloseCommand = (parent: Command, context: CliContext): void => {
  parent
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
    .addOption(periodOption())
    .addOption(new Option("--meter <meter>", "only usage of this meter").choices(KINDS))
    .addOption(operatorOption())
    .option("--dry-run", "show what would be closed")
    .addHelpText("after", CLOSE_HELP)
    .action((names, options) => close(context, names, options));
};
