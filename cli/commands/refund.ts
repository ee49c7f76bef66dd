import type { Command } from "@commander-js/extra-typings";
import { SHORT_TEXT_LENGTH, shortText } from "../../modules/records/fields.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { sumRefundable } from "../../modules/registrations/refunds.sql.ts";
import { refundMatching, refundRecord } from "../../modules/support/refundRecord.ts";
import type { RefundedRecord } from "../../modules/support/refundRecord.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { accountOption, getNamedAccount, readAccountFilter } from "../accountOptions.ts";
import { parseCount, parseMode, parseReason, parseRecordId, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openBillingChange, operatorOption } from "../operator.ts";
import type { ReasonedOptions } from "../operator.ts";
import { createProgressBar } from "../output/createProgressBar.ts";
import { printResult, printObjects } from "../output/print.ts";
import { requireTimeRange, sinceOption, untilOption } from "../timeRange.ts";
import type { TimeRange } from "../timeRange.ts";

type RefundOptions = ReasonedOptions &
  TimeRange & {
    readonly org?: string;
    readonly count?: number;
    readonly idempotencyKey?: string;
    readonly mode?: Mode;
    readonly attribution?: string;
    readonly dryRun?: true;
    readonly yes?: true;
  };

/** Returns what was refunded, for people and with the names of the JSON output. */
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

const refundOne = async (
  context: CliContext,
  id: string,
  options: RefundOptions,
): Promise<void> => {
  const { org, count = null, idempotencyKey = null, reason, dryRun } = options;
  const isDryRun = dryRun === true;
  const deps = await openBillingChange(context, options);
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
  printResult(context.io, { ...result, replayed, dry_run: isDryRun });
  const done = replayed ? "Already refunded" : "Refunded";
  say(
    context.io,
    isDryRun && !replayed
      ? `Without --dry-run, the command refunds ${what}.`
      : `${done}: ${what}. See impact find ${id}`,
  );
};

const describe = (registrations: number, units: bigint): string =>
  `${counted(units, "unit")} of ${counted(registrations, "registration")}`;

type Failure = { readonly id: string; readonly reason: string };

const refundAll = async (context: CliContext, options: RefundOptions): Promise<void> => {
  const { io } = context;
  const { org, mode = "live", attribution = null, since = null, until = null, reason } = options;
  if (org === undefined || (attribution === null && (since === null || until === null))) {
    throw new CommandError(
      EXIT.usage,
      "Pass the id of a record, or --org and --attribution, or --org, --since and --until.",
    );
  }
  requireTimeRange(options);
  const deps = await openBillingChange(context, options);
  const { id: accountId } = await getNamedAccount(deps.db, org);
  const filter = { accountId, mode, attribution, from: since, until };
  const matching = await sumRefundable(deps.db, filter);
  say(io, `The filter matches ${describe(matching.registrations, matching.units)}.`);
  const isDryRun = options.dryRun === true;
  if (!isDryRun && options.yes !== true) {
    throw new CommandError(EXIT.usage, "Check with --dry-run, then refund them with --yes.");
  }
  const bar = createProgressBar(io);
  const failures: Failure[] = [];
  let [registrations, units] = [0, 0n];
  try {
    for await (const { id, refundedCount, error } of refundMatching(deps, filter, {
      reason,
      isDryRun,
    })) {
      if (error === null) {
        registrations += 1;
        units += BigInt(refundedCount);
      } else {
        failures.push({ id, reason: error });
      }
      const handled = registrations + failures.length;
      bar.update(
        handled / Math.max(matching.registrations, 1),
        `${handled} of ${matching.registrations}`,
      );
    }
  } finally {
    bar.clear();
    const result = {
      dry_run: isDryRun,
      refunded_registrations: registrations,
      refunded_units: Number(units),
      failures,
    };
    printResult(io, result, () => {
      if (failures.length > 0) {
        printObjects(
          io,
          failures.map(({ id, reason: why }) => ({ registration: id, not_refunded_because: why })),
        );
      }
    });
    const summary = describe(registrations, units);
    say(
      io,
      isDryRun
        ? `With --yes instead of --dry-run, the command refunds ${summary}.`
        : `Refunded ${summary}.`,
    );
  }
  if (failures.length > 0) {
    throw new CommandError(
      EXIT.failed,
      `${counted(failures.length, "registration")} ${isDryRun ? "cannot" : "could not"} be refunded.`,
    );
  }
};

const HELP = `
Partial refunds add up: give --idempotency-key to be able to repeat the command. A store's
units are returned to its balance at the price that was paid. A donation is only marked:
the charity keeps the money.

Without an id, what remains of all matching registrations of --org is refunded. Select them
with --attribution, with --since and --until, or with both. Check them with --dry-run, then
pass --yes. Each is refunded by itself, so an interrupted run can be repeated.`;

/** Options of the refund of one record, and of all that match. */
const OF_ONE = ["count", "idempotencyKey"] as const;
const OF_ALL = ["mode", "attribution", "since", "until", "yes"] as const;

/** Returns the flag of an option, such as `--idempotency-key`. */
const flagOf = (name: string): string =>
  `--${name.replaceAll(/[A-Z]/gu, (letter) => `-${letter.toLowerCase()}`)}`;

const parseRefundKey = parserOf(shortText().min(1), `1 to ${SHORT_TEXT_LENGTH} characters`);

export const defineRefundCommand = (command: Command, context: CliContext): void => {
  command
    .argument("[id]", "id of a registration or a donation", parseRecordId)
    .requiredOption("--reason <text>", "reason, recorded with the refund", parseReason)
    .option("--count <n>", "units of a registration (default: all that remain)", parseCount)
    .option("--idempotency-key <key>", "makes repeating the command safe", parseRefundKey)
    .addOption(accountOption())
    .option("--mode <live|test>", "mode of matching registrations (default: live)", parseMode)
    .option("--attribution <text>", "attribution of matching registrations")
    .addOption(sinceOption())
    .addOption(untilOption())
    .option("--yes", "confirm that all matching registrations are refunded")
    .option("--dry-run", "check only")
    .addOption(operatorOption())
    .addHelpText("after", HELP)
    .action((id, options) => {
      const ignored = (id === undefined ? OF_ONE : OF_ALL).filter(
        (name) => options[name] !== undefined,
      );
      if (ignored.length > 0) {
        throw new CommandError(
          EXIT.usage,
          `${ignored.map(flagOf).join(", ")}: ${id === undefined ? "requires" : "cannot be combined with"} the id of a record.`,
        );
      }
      return id === undefined ? refundAll(context, options) : refundOne(context, id, options);
    });
};
