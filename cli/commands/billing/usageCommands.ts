import type { Command } from "commander";
import { Option } from "commander";
import { ASSUMED_OUTCOMES } from "../../../domain/billing/repair/decideRetry.ts";
import { USAGE_STATES } from "../../../domain/billing/meterEvents.ts";
import {
  collect,
  parseDifferenceId,
  parseId,
  parseLimit,
  parseMeterEventId,
  parseReason,
  parseRecordId,
  parseRetryId,
  parseStripeCustomer,
  parseTimestamp,
  parseUnits,
} from "../../arguments.ts";
import type { RetryId } from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { operatorOption, reasonOption, withAudit } from "../../operator.ts";
import type { ChangeOptions, ReasonedOptions } from "../../operator.ts";
import { sinceOption, untilOption } from "../../timeRange.ts";
import { recordOwnerOption } from "../../accountOptions.ts";
import type { JsonOption } from "../../output/print.ts";
import { acknowledge } from "./acknowledgeDrift.ts";
import type { CorrectOptions } from "./repair/correctFailover.ts";
import { correctFailover } from "./repair/correctFailover.ts";
import { creditNoteOption, invoiceItemOption } from "./repair/readDocument.ts";
import { holdAllUsage, releaseAllUsage } from "./repair/holdUsage.ts";
import type { FoldOptions } from "./foldUsage.ts";
import { foldUsage } from "./foldUsage.ts";
import type { ListOptions } from "./listUsage.ts";
import { listUsage } from "./listUsage.ts";
import type { ReconcileOptions } from "./reconcile.ts";
import { reconcile } from "./reconcile.ts";
import type { CompareAndReleaseOptions } from "./repair/compareAndRelease.ts";
import { compareAndRelease } from "./repair/compareAndRelease.ts";
import type { ReopenOptions } from "./repair/reopenEvent.ts";
import { reopenEvent } from "./repair/reopenEvent.ts";
import type { RetryOptions } from "./repair/retryEvents.ts";
import { retryEvents } from "./repair/retryEvents.ts";
import type { SendNowOptions } from "./repair/sendUsageNow.ts";
import { sendUsageNow } from "./repair/sendUsageNow.ts";
import type { SettleOptions } from "./repair/settleEvent.ts";
import { settleEvent } from "./repair/settleEvent.ts";
import { showLastReconciliation } from "./showLastReconciliation.ts";
import type { ShowUsageOptions } from "./showUsage.ts";
import { showUsage } from "./showUsage.ts";
import { waiveEvents } from "./repair/waiveEvents.ts";

const RETRY_HELP = `
Usage that was refused is sent again in a new event. If an attempt may have been
accepted, or drift of the event's minute was acknowledged, the processor's sums are
checked first. If they are unclear, find out what happened and pass --assume: a wrong
"absent" bills the usage twice, a wrong "delivered" never bills it. If two customers of
its organization may have the usage, --assume delivered needs the one that has it, named
with --customer.`;

const WAIVE_HELP = `
Waive only usage that the processor does not have and will never get: it was invoiced
by hand, or can never be sent. Later refunds of it are held: settle them with the credit
note that you issue, or waive them if none is needed. A waived event can still be retried
by its id.`;

const REOPEN_HELP = `
Only an event that the processor accepted and lost can be reopened: the processor's sum
of its minute must lack exactly this event. If its organization has another customer now,
that one must not have the usage either. The usage is sealed in a new event.`;

const ACKNOWLEDGE_HELP = `
An acknowledged difference of a minute changes nothing at the processor. It is reported
again only if it changes, and retry and reopen count it as explained. If usage that
counted as delivered then fails later, retry it before anything else is done about it.`;

const COMPARE_AND_RELEASE_HELP = `
After a restore or an unplanned failover, all live usage from before the hold that is not
delivered is compared with the processor's sums of its minute. What the processor has
counts as delivered; the workers send the rest. The command needs 15 minutes of hold,
because the sums lag, and may be repeated. With --since, older usage is not compared and
is sent again: use it only if you know that none of that usage, or of its refunds, was
sent after the restored time.`;

const SETTLE_HELP = `
The usage counts as settled, neither as failed nor as late, and is never sent again. Usage
needs an invoice item, a refund a credit note. Repeating the command with the same
reference changes nothing; another is refused.`;

const CORRECT_HELP = `
The processor's sums are compared with the database from a minute before the restored time
to 15 minutes ago. Units that no registration or refund explains are taken back with a
negative meter event. If their invoice is final or they are older than the processor
corrects, create a credit note and name it with its units, for one --org at a time.
Minutes in which the processor has less are listed only: --include-lost-refunds bills what
lost refunds had taken back, in the last 35 days. Repeating the command corrects only what
is left.`;

const FOLD_HELP = `
Usage that was delivered, and whose billing period has ended for 36 days, is folded: its
usage facts and meter events are deleted, and their units are kept by hour and second.
Registrations, refunds, statements, reconciliations and what clients see do not change.
Usage that failed, was corrected, has a note, or was delivered late or less than 36 days
ago stays as it is.
Make a backup first. The command may be stopped at any time and repeated.`;

const addListCommands = (usage: Command, context: CliContext): void => {
  usage
    .command("list")
    .description("List meter events, latest first, and usage that is not sealed yet")
    .addOption(
      new Option(
        "--state <state>",
        "state of the events; pending: unsealed, sealed or sending; failed: rejected, expired or blocked; late: delivered after the billing period ended; held: refunds of usage that the processor does not have; uncredited: those of usage that was settled by hand or waived",
      ).choices(USAGE_STATES),
    )
    .option("--org <id>", "id of the organization", parseId)
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action((options: ListOptions) => listUsage(context, options));
  usage
    .command("show")
    .description("Show the usage of a registration and its meter events")
    .argument("<registration-id>", "id of the registration", parseRecordId)
    .addOption(recordOwnerOption())
    .action((id: string, options: ShowUsageOptions) => showUsage(context, id, options));
};

const addSendingCommands = (usage: Command, context: CliContext): void => {
  withAudit(
    usage
      .command("retry")
      .description("Retry failed meter events")
      .argument(
        "[ids...]",
        "ids of failed meter events, or of registrations in them",
        collect(parseRetryId),
      )
      .option("--org <id>", "all failed events of this organization", parseId)
      .option("--all", "all failed events")
      .addOption(
        new Option("--assume <outcome>", "outcome of the attempts, if you know it").choices(
          ASSUMED_OUTCOMES,
        ),
      )
      .option(
        "--customer <id>",
        "Stripe customer that has the usage, with --assume delivered",
        parseStripeCustomer,
      ),
  )
    .addHelpText("after", RETRY_HELP)
    .action((ids: readonly RetryId[] | undefined, options: RetryOptions) =>
      retryEvents(context, ids ?? [], options),
    );
  withAudit(
    usage
      .command("send-now")
      .description("Send pending usage now, without waiting for the next attempt")
      .option("--org <id>", "id of the organization", parseId),
  ).action((options: SendNowOptions) => sendUsageNow(context, options));
};

const addRepairCommands = (usage: Command, context: CliContext): void => {
  usage
    .command("waive")
    .description("Close failed or held meter events whose usage will never be sent")
    .argument("<ids...>", "ids of failed or held meter events", collect(parseMeterEventId))
    .requiredOption("--reason <text>", "reason, recorded with the events", parseReason)
    .addOption(operatorOption())
    .addHelpText("after", WAIVE_HELP)
    .action((ids: readonly bigint[], options: ReasonedOptions) =>
      waiveEvents(context, ids, options),
    );
  usage
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
    .action((id: bigint, options: SettleOptions) => settleEvent(context, id, options));
  usage
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
  usage
    .command("reopen")
    .description("Resend a delivered meter event that the processor has lost")
    .argument("<id>", "id of a delivered meter event", parseMeterEventId)
    .requiredOption("--reason <text>", "reason, recorded with the event", parseReason)
    .addOption(operatorOption())
    .option("--dry-run", "check only")
    .addHelpText("after", REOPEN_HELP)
    .action((id: bigint, options: ReopenOptions) => reopenEvent(context, id, options));
};

const addReconciliationCommands = (usage: Command, context: CliContext): void => {
  usage
    .command("reconcile")
    .description("Compare the processor's usage with what was delivered, without correcting it")
    .option("--org <id>", "id of the organization", parseId)
    .addOption(sinceOption("first minute (default: 35 days before the end)"))
    .addOption(untilOption("end, exclusive (default: 15 minutes ago)"))
    .action((options: ReconcileOptions) => reconcile(context, options));
  usage
    .command("show-reconciliation")
    .description("Show the last complete reconciliation")
    .action((options: JsonOption) => showLastReconciliation(context, options));
  usage
    .command("compare-and-release")
    .description("Settle the usage that a restore has put in doubt, and end the hold")
    .addOption(sinceOption("first second of the usage in doubt"))
    .addOption(operatorOption())
    .option("--dry-run", "compare only")
    .addHelpText("after", COMPARE_AND_RELEASE_HELP)
    .action((options: CompareAndReleaseOptions) => compareAndRelease(context, options));
  usage
    .command("acknowledge-drift")
    .description("Acknowledge differences that are explained or settled")
    .argument(
      "<ids...>",
      "ids of differences that a reconciliation listed",
      collect(parseDifferenceId),
    )
    .requiredOption("--reason <text>", "reason, recorded with the differences", parseReason)
    .addOption(operatorOption())
    .addHelpText("after", ACKNOWLEDGE_HELP)
    .action((ids: readonly bigint[], options: ReasonedOptions) =>
      acknowledge(context, ids, options),
    );
};

const addFoldCommand = (usage: Command, context: CliContext): void => {
  usage
    .command("fold")
    .description("Fold settled usage of past billing periods into sums, to save space")
    .requiredOption("--before <time>", "usage of registrations before this time", parseTimestamp)
    .option("--org <id>", "id of the organization", parseId)
    .addOption(reasonOption())
    .addOption(operatorOption())
    .option("--dry-run", "count only")
    .addHelpText("after", FOLD_HELP)
    .action((options: FoldOptions) => foldUsage(context, options));
};

const addHoldCommands = (usage: Command, context: CliContext): void => {
  usage
    .command("hold")
    .description("Hold all usage: nothing is sealed or sent")
    .requiredOption("--reason <text>", "reason, recorded with the hold", parseReason)
    .addOption(operatorOption())
    .action((options: ReasonedOptions) => holdAllUsage(context, options));
  withAudit(
    usage
      .command("release")
      .description("End a hold, if no data was lost: workers send usage as before"),
  ).action((options: ChangeOptions) => releaseAllUsage(context, options));
};

export const addUsageCommands = (usage: Command, context: CliContext): void => {
  addListCommands(usage, context);
  addSendingCommands(usage, context);
  addRepairCommands(usage, context);
  addReconciliationCommands(usage, context);
  addFoldCommand(usage, context);
  addHoldCommands(usage, context);
};
