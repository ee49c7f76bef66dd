import type { Command } from "commander";
import { findDonationDetails } from "../../modules/charities/donations.sql.ts";
import { sumRefundable } from "../../modules/registrations/refunds.sql.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { SHORT_TEXT_LENGTH, shortText } from "../../modules/records/fields.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { recordNotFound, shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { getOrganizationOrStore } from "../../modules/accounts/getAccount.ts";
import { refundDonations } from "../../modules/charities/refundDonations.ts";
import { resultOfOne } from "../../modules/records/batches.rules.ts";
import { getRecordId } from "../../modules/records/getRecordId.ts";
import {
  refundAnyRegistration,
  refundMatching,
} from "../../modules/support/refundAnyRegistration.ts";
import { recordOwnerOption } from "../accountOptions.ts";
import type { RecordOwnerOptions } from "../accountOptions.ts";
import {
  parseCount,
  parseId,
  parseMode,
  parseReason,
  parseRecordId,
  parserOf,
} from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { openBillingChange, operatorOption } from "../operator.ts";
import type { ReasonedOptions } from "../operator.ts";
import { createProgressBar } from "../output/createProgressBar.ts";
import { printResult, printRows } from "../output/print.ts";
import { requireTimeRange, sinceOption, untilOption } from "../timeRange.ts";
import type { TimeRange } from "../timeRange.ts";

type RefundOptions = RecordOwnerOptions &
  ReasonedOptions & {
    readonly dryRun?: true;
  };

const addCommonOptions = (command: Command): Command =>
  command
    .requiredOption("--reason <text>", "reason, recorded with the refund", parseReason)
    .addOption(operatorOption())
    .option("--dry-run", "check only");

const REFUND_HELP = `
Partial refunds add up: give --idempotency-key to be able to repeat the command. A
store's units are returned to its balance at the price that was paid.`;

const parseRefundKey = parserOf(shortText().min(1), `1 to ${SHORT_TEXT_LENGTH} characters`);

const addRegistrationCommand = (parent: Command, context: CliContext): void => {
  addCommonOptions(
    parent
      .command("registration")
      .description("Refund a registration of an organization or a store, in full or in part")
      .argument("<id>", "id of the registration", parseRecordId)
      .addOption(recordOwnerOption())
      .option("--count <n>", "units (default: all that remain)", parseCount)
      .option("--idempotency-key <key>", "makes repeating the command safe", parseRefundKey),
  )
    .addHelpText("after", REFUND_HELP)
    .action(
      async (
        id: string,
        options: RefundOptions & { readonly count?: number; readonly idempotencyKey?: string },
      ) => {
        const isDryRun = options.dryRun === true;
        const { registration, refundedCount, replayed } = await refundAnyRegistration(
          await openBillingChange(context, options),
          {
            id,
            accountId: options.org ?? null,
            count: options.count ?? null,
            reason: options.reason,
            idempotencyKey: options.idempotencyKey ?? null,
            isDryRun,
          },
        );
        printResult(
          { io: context.io, json: options.json },
          {
            registration_id: shownIdOf(registration),
            refunded_count: refundedCount,
            replayed,
            dry_run: isDryRun,
          },
        );
        const units = `${counted(refundedCount, registration.kind)} of ${registration.accountName}`;
        say(
          context.io,
          isDryRun && !replayed
            ? `Without --dry-run, the command refunds ${units}.`
            : `${replayed ? "Already refunded with this key" : "Refunded"}: ${units}. See impact usage explain ${id}${options.org === undefined ? "" : ` --org ${options.org}`}`,
        );
      },
    );
};

const addDonationCommand = (parent: Command, context: CliContext): void => {
  addCommonOptions(
    parent
      .command("donation")
      .description("Mark a donation as refunded; the charity keeps the money")
      .argument("<id>", "id of the donation", parseRecordId)
      .addOption(recordOwnerOption()),
  ).action(async (id: string, options: RefundOptions) => {
    const { db, clock, actor } = await openBillingChange(context, options);
    const donation = await findDonationDetails(
      db,
      await getRecordId(db, "donation", id, options.org ?? null),
    );
    if (!donation) {
      throw recordNotFound("donation", id);
    }
    const isDryRun = options.dryRun === true;
    const { reason } = options;
    const request = { id: donation.id, reason, idempotencyKey: null, metadata: {} };
    const { replayed } = isDryRun
      ? { replayed: donation.refunded }
      : resultOfOne(await refundDonations({ db, clock, actor }, donation, [request], true));
    printResult(
      { io: context.io, json: options.json },
      {
        donation_id: shownIdOf(donation),
        refunded_amount_cents: donation.amountCents,
        replayed,
        dry_run: isDryRun,
      },
    );
    const done = isDryRun ? "Without --dry-run, the command refunds" : "Refunded";
    say(
      context.io,
      `${replayed ? "Already refunded:" : done} the donation of ${formatCents(donation.amountCents)} to ${donation.charityName}.`,
    );
  });
};

type FilterOptions = RefundOptions &
  TimeRange & {
    readonly org: string;
    readonly mode: Mode;
    readonly attribution?: string;
    readonly yes?: true;
  };

type Failure = { readonly id: string; readonly reason: string };

const printMatching = (
  io: Io,
  { registrations, units }: { readonly registrations: number; readonly units: bigint },
  failures: readonly Failure[],
  { json, dryRun }: FilterOptions,
): void => {
  const result = {
    dry_run: dryRun === true,
    refunded_registrations: registrations,
    refunded_units: Number(units),
    failures,
  };
  printResult({ io, json }, result, () => {
    if (failures.length > 0) {
      printRows(io, failures, {
        registration: ({ id }) => id,
        "not refunded because": ({ reason }) => reason,
      });
    }
  });
  const summary = `${counted(units, "unit")} of ${counted(registrations, "registration")}`;
  say(
    io,
    dryRun
      ? `With --yes instead of --dry-run, the command refunds ${summary}.`
      : `Refunded ${summary}.`,
  );
};

const REFUND_MATCHING_HELP = `
Select the registrations with --attribution, with --since and --until, or with both. Check
them with --dry-run, then pass --yes. Each is refunded by itself, so an interrupted run
can be repeated.`;

const addRegistrationsCommand = (parent: Command, context: CliContext): void => {
  addCommonOptions(
    parent
      .command("registrations")
      .description("Refund all that remains of the matching registrations")
      .requiredOption("--org <id>", "id of the organization or store", parseId)
      .option("--mode <live|test>", "mode", parseMode, "live")
      .option("--attribution <text>", "attribution of the registrations")
      .addOption(sinceOption())
      .addOption(untilOption())
      .option("--yes", "confirm that all of them are refunded"),
  )
    .addHelpText("after", REFUND_MATCHING_HELP)
    .action(async (options: FilterOptions) => {
      const { io } = context;
      const {
        org: accountId,
        mode,
        attribution = null,
        since: from = null,
        until = null,
      } = options;
      if (attribution === null && (from === null || until === null)) {
        throw new CommandError(EXIT.usage, "Pass --attribution, or --since and --until.");
      }
      requireTimeRange(options);
      const deps = await openBillingChange(context, options);
      await getOrganizationOrStore(deps.db, accountId);
      const filter = { accountId, mode, attribution, from, until };
      const { registrations, units } = await sumRefundable(deps.db, filter);
      say(
        io,
        `The filter matches ${counted(registrations, "registration")} with ${counted(units, "unit")}.`,
      );
      const isDryRun = options.dryRun === true;
      if (!isDryRun && options.yes !== true) {
        throw new CommandError(EXIT.usage, "Check with --dry-run, then refund them with --yes.");
      }
      const bar = createProgressBar(io);
      const failures: Failure[] = [];
      const done = { registrations: 0, units: 0n };
      try {
        for await (const { id, refundedCount, error } of refundMatching(deps, filter, {
          reason: options.reason,
          isDryRun,
        })) {
          if (error === null) {
            done.registrations += 1;
            done.units += BigInt(refundedCount);
          } else {
            failures.push({ id, reason: error });
          }
          const handled = done.registrations + failures.length;
          bar.update(handled / Math.max(registrations, 1), `${handled} of ${registrations}`);
        }
      } finally {
        bar.clear();
        printMatching(io, done, failures, options);
      }
      if (failures.length > 0) {
        throw new CommandError(
          EXIT.failed,
          `${counted(failures.length, "registration")} ${isDryRun ? "cannot" : "could not"} be refunded.`,
        );
      }
    });
};

export const addRefundCommands = (refund: Command, context: CliContext): void => {
  addRegistrationCommand(refund, context);
  addDonationCommand(refund, context);
  addRegistrationsCommand(refund, context);
};
