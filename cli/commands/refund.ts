import { SHORT_TEXT_LENGTH, shortText } from "../../modules/records/fields.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { refundRecord } from "../../modules/support/refundRecord.ts";
import type { RefundedRecord } from "../../modules/support/refundRecord.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { ACCOUNT_OPTION, readAccountFilter } from "../accountOptions.ts";
import { parseCount, parseReason, parseRecordId, parserOf } from "../arguments.ts";
import { OPERATOR } from "../command.ts";
import type { Define } from "../command.ts";

const presentRefunded = (refunded: RefundedRecord) => {
  if ("donation" in refunded) {
    const { donation } = refunded;
    return {
      what: `the donation of ${formatCents(donation.amountCents)} to ${donation.charityName}`,
      result: { donation_id: shownIdOf(donation), refunded_amount_cents: donation.amountCents },
    };
  }
  const { registration, refundedCount } = refunded;
  return {
    what: `${counted(refundedCount, registration.kind)} of ${registration.accountName}`,
    result: { registration_id: shownIdOf(registration), refunded_count: refundedCount },
  };
};

const HELP = `
Partial refunds add up: give --idempotency-key to be able to repeat the command. A store's
units are returned to its balance at the price that was paid. A donation is only marked:
the charity keeps the money.`;

const parseRefundKey = parserOf(shortText().min(1), `1 to ${SHORT_TEXT_LENGTH} characters`);

export const defineRefundCommand: Define = (command, cli) => {
  command
    .argument("<id>", "id of a registration or a donation", parseRecordId)
    .requiredOption("--reason <text>", "reason, recorded with the refund", parseReason)
    .option("--count <n>", "units of a registration (default: all that remain)", parseCount)
    .option("--idempotency-key <key>", "makes repeating the command safe", parseRefundKey)
    .option(...ACCOUNT_OPTION)
    .option("--dry-run", "check only")
    .option(...OPERATOR)
    .addHelpText("after", HELP)
    .action(async (id, options) => {
      const { org, count = null, idempotencyKey = null, reason, dryRun } = options;
      const isDryRun = dryRun === true;
      const deps = await cli.openBillingChange(options);
      const refunded = await refundRecord(deps, {
        id,
        accountId: await readAccountFilter(deps.db, org),
        count,
        reason,
        idempotencyKey,
        isDryRun,
      });
      const { replayed } = refunded;
      const { what, result } = presentRefunded(refunded);
      cli.printResult({ ...result, replayed, dry_run: isDryRun });
      const done = replayed ? "Already refunded" : "Refunded";
      cli.say(
        isDryRun && !replayed
          ? `Without --dry-run, the command refunds ${what}.`
          : `${done}: ${what}. See impact find ${id}`,
      );
    });
};
