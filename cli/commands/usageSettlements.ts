import { Option } from "commander";
import type { Command } from "commander";
import { z } from "zod";
import type { HandSettlement } from "../../modules/billing/reconciliation/closeUsage.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import {
  correctFailover as correct,
  unitsOf,
} from "../../modules/billing/reconciliation/correctFailover.ts";
import type {
  FailoverReport,
  ProposedCorrection,
} from "../../modules/billing/reconciliation/correctFailover.ts";
import { settleUsage, waiveUsage } from "../../modules/billing/reconciliation/closeUsage.ts";
import { readAccountFilter } from "../accountOptions.ts";
import {
  collect,
  parseId,
  parseMeterEventId,
  parseReason,
  parseTimestamp,
  parserOf,
  trimmed,
} from "../arguments.ts";
import { openBilling } from "../context.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openChange, operatorName, operatorOption } from "../operator.ts";
import type { ChangeOptions, ReasonedOptions } from "../operator.ts";
import { formatTime } from "../output/formatTable.ts";
import { printJson, printRows } from "../output/print.ts";
import { printResults, requireSuccess, runForEach } from "./usageResults.ts";

type DocumentOptions = { readonly invoiceItem?: string; readonly creditNote?: string };

/** The id of a document at the processor. */
const parseDocument = trimmed(200);

const invoiceItemOption = (): Option =>
  new Option("--invoice-item <reference>", "invoice item that billed the usage")
    .argParser(parseDocument)
    .conflicts("creditNote");

const creditNoteOption = (): Option =>
  new Option("--credit-note <reference>", "credit note that returned the usage").argParser(
    parseDocument,
  );

/** Returns the document that an operator names, or null. Commander accepts only one of the two. */
const readDocument = ({ invoiceItem, creditNote }: DocumentOptions): HandSettlement | null => {
  if (invoiceItem !== undefined) {
    return { kind: "invoice_item", reference: invoiceItem };
  }
  return creditNote === undefined ? null : { kind: "credit_note", reference: creditNote };
};

const WAIVE_HELP = `
Waive only usage that the processor does not have and will never get: it was invoiced
by hand, or can never be sent. Later refunds of it are held: settle them with the credit
note that you issue, or waive them if none is needed. A waived event can still be retried
by its id.`;

export const addWaiveCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("waive")
    .description("Close failed or held meter events whose usage will never be sent")
    .argument("<ids...>", "ids of failed or held meter events", collect(parseMeterEventId))
    .requiredOption("--reason <text>", "reason, recorded with the events", parseReason)
    .addOption(operatorOption())
    .addHelpText("after", WAIVE_HELP)
    .action(async (ids: readonly bigint[], { json, ...operator }: ReasonedOptions) => {
      const { io } = context;
      const deps = await openChange(context, operator);
      const results = await runForEach(io, ids, "waived", async (id) => {
        await waiveUsage(deps, id, operator.reason);
        return "waived";
      });
      printResults(io, results, json === true);
      requireSuccess(results, "waived");
    });
};

type SettleOptions = DocumentOptions & ReasonedOptions & { readonly units?: number };

const SETTLE_HELP = `
The usage counts as settled, neither as failed nor as late, and is never sent again. Usage
needs an invoice item, a refund a credit note. Repeating the command with the same
reference changes nothing; another is refused.`;

/** The units of a meter event, which are negative for a refund. */
const parseUnits = parserOf(
  z
    .string()
    .regex(/^-?\d{1,16}$/u)
    .transform(Number)
    .pipe(z.int()),
  "a whole number, with a minus sign for a refund",
);

export const addSettleCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("settle")
    .description("Record that a meter event was settled by hand")
    .argument("<id>", "id of a failed, held, waived or late meter event", parseMeterEventId)
    .addOption(invoiceItemOption())
    .addOption(creditNoteOption())
    .option(
      "--units <n>",
      "expected units of the event, with the listed sign; a different event is refused",
      parseUnits,
    )
    .requiredOption("--reason <text>", "reason, recorded with the event", parseReason)
    .addOption(operatorOption())
    .addHelpText("after", SETTLE_HELP)
    .action(async (meterEventId: bigint, options: SettleOptions) => {
      const { io } = context;
      const settlement = readDocument(options);
      if (settlement === null) {
        throw new CommandError(
          EXIT.usage,
          "Say how it was settled: --invoice-item or --credit-note.",
        );
      }
      const { quantity, replayed } = await settleUsage(
        await openChange(context, options),
        meterEventId,
        settlement,
        { reason: options.reason, expectedUnits: options.units ?? null },
      );
      const units = counted(quantity, "unit");
      if (options.json) {
        printJson(io, {
          meter_event_id: Number(meterEventId),
          settlement: settlement.kind,
          reference: settlement.reference,
          quantity,
          replayed,
        });
      }
      say(
        io,
        replayed
          ? `Event ${meterEventId} (${units}) was already settled with ${settlement.reference}.`
          : `Settled ${units} of event ${meterEventId} with ${settlement.reference}. Its usage is never sent again.`,
      );
    });
};

type CorrectOptions = DocumentOptions &
  ChangeOptions & {
    readonly restoredAt: Date;
    readonly org?: string;
    readonly includeLostRefunds?: true;
    readonly units?: number;
    readonly dryRun?: true;
  };

/** At least one call to the processor for each customer and kind. */
const TIMEOUT_MS = HOUR_MS;

/** Returns what is sent to the processor, or is settled by hand. */
const correctionOf = (correction: ProposedCorrection): number | null =>
  correction.action === "wait" || correction.action === "skip" ? null : unitsOf(correction);

/** Says which documents the operator has to issue. Each is of one customer, and each kind has its price. */
const sayNeeded = ({ io }: CliContext, corrections: readonly ProposedCorrection[]): void => {
  const needed = Map.groupBy(
    corrections.filter(({ action }) => action === "document_needed"),
    ({ stream, ...correction }) =>
      `${stream.accountName} (${stream.customerId}), ${stream.kind}: ${unitsOf(correction) > 0 ? "an invoice item" : "a credit note"}`,
  );
  for (const [document, group] of needed) {
    const units = group.reduce((sum, correction) => sum + unitsOf(correction), 0);
    say(io, `${document} of ${counted(units, "unit")} is needed.`);
  }
};

const print = (
  { io }: CliContext,
  { span, corrections, unreadable }: FailoverReport,
  json: boolean,
): void => {
  if (json) {
    printJson(io, {
      from: timeOf(span.start),
      to: timeOf(span.end),
      corrections: corrections.map((correction) => ({
        correction_id: correction.correctionId,
        account_id: correction.stream.accountIds[0],
        account_name: correction.stream.accountName,
        customer_id: correction.stream.customerId,
        meter: correction.stream.kind,
        at: timeOf(correction.second),
        ours: correction.ours,
        processor: correction.processorQuantity,
        correction: correctionOf(correction),
        action: correction.action,
        reason: correction.reason,
      })),
      unreadable: unreadable.map(({ stream, error }) => ({
        account_id: stream.accountIds[0],
        customer_id: stream.customerId,
        meter: stream.kind,
        error,
      })),
    });
    return;
  }
  if (corrections.length > 0) {
    printRows(io, corrections, {
      correction: ({ correctionId }) => (correctionId === null ? null : String(correctionId)),
      organization: ({ stream }) => stream.accountName,
      customer: ({ stream }) => stream.customerId,
      meter: ({ stream }) => stream.kind,
      at: ({ second }) => timeOf(second),
      ours: ({ ours }) => ours,
      processor: ({ processorQuantity }) => processorQuantity,
      units: correctionOf,
      action: ({ action }) => action,
      reason: ({ reason }) => reason,
    });
  }
  for (const { stream, error } of unreadable) {
    say(io, `${stream.accountName} (${stream.customerId}), ${stream.kind}: not compared: ${error}`);
  }
};

const correctFailover = async (context: CliContext, options: CorrectOptions): Promise<void> => {
  const { io } = context;
  const settlement = readDocument(options);
  if (options.reason === undefined && !options.dryRun) {
    throw new CommandError(EXIT.usage, "Pass --reason; it is recorded with each correction.");
  }
  if ((settlement === null) !== (options.units === undefined)) {
    throw new CommandError(
      EXIT.usage,
      "Pass --units together with --credit-note or --invoice-item: the sum of the listed units that the document settles.",
    );
  }
  if (settlement !== null && options.org === undefined) {
    throw new CommandError(
      EXIT.usage,
      "A credit note or invoice item belongs to one customer: pass --org.",
    );
  }
  const deps = await openBilling(context);
  const accountId = await readAccountFilter(deps.db, options.org);
  const report = await correct(
    deps,
    {
      restoredAt: options.restoredAt,
      accountId,
      includeLostRefunds: options.includeLostRefunds === true,
      document:
        settlement !== null && options.units !== undefined
          ? { ...settlement, units: options.units }
          : null,
      reason: options.reason ?? "",
      operator: operatorName(options.as),
      isDryRun: options.dryRun === true,
    },
    AbortSignal.timeout(TIMEOUT_MS),
  );
  print(context, report, options.json === true);
  sayNeeded(context, report.corrections);
  const { span, corrections, unreadable } = report;
  const count = (...actions: readonly string[]): number =>
    corrections.filter(({ action }) => actions.includes(action)).length;
  const done = count("send", "settle");
  const compared = `Compared ${formatTime(timeOf(span.start))} to ${formatTime(timeOf(span.end))}.`;
  say(
    io,
    options.dryRun
      ? `${compared} ${counted(done, "correction")} proposed; nothing was changed.`
      : `${compared} Recorded ${counted(done, "correction")}. The workers send ${count("send")} of them.`,
  );
  if (count("skip") > 0) {
    say(
      io,
      `The processor has less in ${counted(count("skip"), "minute")}, which the command has not corrected.`,
    );
  }
  const open = count("document_needed", "wait") + unreadable.length;
  if (open > 0 && !options.dryRun) {
    throw new CommandError(
      EXIT.failed,
      `${counted(open, "difference remains", "differences remain")}: ${counted(count("document_needed"), "needs", "need")} a document, ${count("wait")} must wait, ${counted(unreadable.length, "customer")} could not be compared. Repeat the command for them.`,
    );
  }
};

const CORRECT_HELP = `
The processor's sums are compared with the database from a minute before the restored time
to 15 minutes ago. Units that no registration or refund explains are taken back with a
negative meter event. If their invoice is final or they are older than the processor
corrects, create a credit note and name it with its units, for one --org at a time.
Minutes in which the processor has less are listed only: --include-lost-refunds bills what
lost refunds had taken back, in the last 35 days. Repeating the command corrects only what
is left.`;

export const addCorrectCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("correct")
    .description("Correct the processor's usage after a failover that lost registrations")
    .requiredOption(
      "--restored-at <time>",
      "time to which the database was restored",
      parseTimestamp,
    )
    .option("--org <id>", "id of the organization", parseId)
    .option("--include-lost-refunds", "bill lost refunds again")
    .addOption(invoiceItemOption())
    .addOption(creditNoteOption())
    .option(
      "--units <n>",
      "units of the document, with the listed sign; refused if its corrections add up to another number",
      parseUnits,
    )
    .option("--reason <text>", "reason, recorded with each correction", parseReason)
    .addOption(operatorOption())
    .option("--dry-run", "propose only")
    .addHelpText("after", CORRECT_HELP)
    .action((options: CorrectOptions) => correctFailover(context, options));
};
