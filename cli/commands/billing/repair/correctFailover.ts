import { counted } from "../../../../domain/counted.ts";
import { HOUR_MS } from "../../../../domain/durations.ts";
import { timeOf } from "../../../../domain/billing/usage.ts";
import type {
  FailoverReport,
  ProposedCorrection,
} from "../../../../services/billing/reconciliation/correctFailover.ts";
import {
  correctFailover as correct,
  unitsOf,
} from "../../../../services/billing/reconciliation/correctFailover.ts";
import { openBilling } from "../../../context.ts";
import type { CliContext } from "../../../context.ts";
import { CommandError, EXIT } from "../../../exitCodes.ts";
import { say } from "../../../io.ts";
import { operatorName } from "../../../operator.ts";
import type { ChangeOptions } from "../../../operator.ts";
import { formatTime } from "../../../output/formatTable.ts";
import { printJson, printRows } from "../../../output/print.ts";
import { readAccountFilter } from "../../../accountOptions.ts";
import type { DocumentOptions } from "./readDocument.ts";
import { readDocument } from "./readDocument.ts";

export type CorrectOptions = DocumentOptions &
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

export const correctFailover = async (
  context: CliContext,
  options: CorrectOptions,
): Promise<void> => {
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
