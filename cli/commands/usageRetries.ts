import { Option } from "commander";
import type { Command } from "commander";
import { z } from "zod";
import { listFailedMeterEventIds } from "../../modules/billing/meterEventReports.sql.ts";
import { findRegistration } from "../../modules/registrations/registrations.sql.ts";
import { ownerKey } from "../../modules/records/owner.rules.ts";
import { ASSUMED_OUTCOMES } from "../../modules/billing/reconciliation/decideRetry.rules.ts";
import type { AssumedOutcome } from "../../modules/billing/reconciliation/decideRetry.rules.ts";
import { timeOf } from "../../modules/billing/usage.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { recordNotFound } from "../../modules/records/recordIds.rules.ts";
import { reopenUsage, retryUsage } from "../../modules/billing/reconciliation/retryUsage.ts";
import { sendUsageNow } from "../../modules/billing/sending/sendUsageNow.ts";
import { readAccountFilter } from "../accountOptions.ts";
import {
  collect,
  generatedId,
  guid,
  parseId,
  parseMeterEventId,
  parseReason,
  parseStripeCustomer,
  parserOf,
} from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { actorOf, openBillingChange, operatorOption, withAudit } from "../operator.ts";
import type { ChangeOptions, ReasonedOptions } from "../operator.ts";
import { createProgressBar } from "../output/createProgressBar.ts";
import { printJson, printRows } from "../output/print.ts";
import {
  failureOf,
  printResults,
  requireSuccess,
  runForEach,
  sayIfHeld,
  warnOfEndedPeriods,
} from "./usageResults.ts";
import type { Result } from "./usageResults.ts";

type RetryOptions = ChangeOptions & {
  readonly org?: string;
  readonly all?: true;
  readonly assume?: AssumedOutcome;
  readonly customer?: string;
};

/** A meter event, or a registration whose failed meter events are meant. */
type RetryId = { readonly meterEventId: bigint } | { readonly registrationId: string };

const requireOneSelection = (
  ids: readonly RetryId[],
  { org, all, assume, customer }: RetryOptions,
): void => {
  const ways = [ids.length > 0, org !== undefined, all === true].filter(Boolean);
  if (ways.length !== 1) {
    throw new CommandError(EXIT.usage, "Name what to retry: ids, --org or --all.");
  }
  if (assume !== undefined && ids.length === 0) {
    throw new CommandError(
      EXIT.usage,
      "--assume needs the ids of the events whose outcome you have checked.",
    );
  }
  if (customer !== undefined && assume !== "delivered") {
    throw new CommandError(EXIT.usage, "--customer requires --assume delivered.");
  }
};

/** @throws DomainError if a registration is unknown or has no failed event */
const findEvents = async ({ connections }: CliContext, id: RetryId): Promise<readonly bigint[]> => {
  if ("meterEventId" in id) {
    return [id.meterEventId];
  }
  const db = await connections.database();
  const events = await listFailedMeterEventIds(db, id);
  if (events.length > 0) {
    return events;
  }
  throw (await findRegistration(db, id.registrationId))
    ? invalidRequest("none of its usage has failed; there is nothing to retry")
    : recordNotFound("registration", id.registrationId);
};

const collectEvents = async (
  context: CliContext,
  ids: readonly RetryId[],
  { org }: RetryOptions,
): Promise<{ readonly events: readonly bigint[]; readonly failures: readonly Result<never>[] }> => {
  const db = await context.connections.database();
  if (ids.length === 0) {
    const accountId = await readAccountFilter(db, org);
    const failed = await listFailedMeterEventIds(db, accountId === null ? null : { accountId });
    return { events: failed, failures: [] };
  }
  const events = new Set<bigint>();
  const failures: Result<never>[] = [];
  const bar = createProgressBar(context.io);
  for (const [index, id] of ids.entries()) {
    bar.update(index / ids.length, `${index} of ${ids.length} looked up`);
    try {
      for (const event of await findEvents(context, id)) {
        events.add(event);
      }
    } catch (error) {
      failures.push(failureOf("registrationId" in id ? id.registrationId : "", error));
    }
  }
  bar.clear();
  return { events: [...events], failures };
};

const retryEvents = async (
  context: CliContext,
  ids: readonly RetryId[],
  options: RetryOptions,
): Promise<void> => {
  requireOneSelection(ids, options);
  const { io } = context;
  const { events, failures } = await collectEvents(context, ids, options);
  const deps = await openBillingChange(context, options);
  await warnOfEndedPeriods(context, events);
  const retried = await runForEach(io, events, "retried", (id) =>
    retryUsage(deps, id, {
      assumed: options.assume ?? null,
      customerId: options.customer ?? null,
    }),
  );
  const results = [...failures, ...retried];
  printResults(io, results, options.json === true);
  if (results.length === 0) {
    say(io, "No usage has failed; there is nothing to retry.");
  }
  const waiting = results.filter(({ result }) => result === "waiting").length;
  if (waiting > 0 && !(await sayIfHeld(io, deps.db))) {
    say(io, `The worker will send the usage of ${counted(waiting, "meter event")} again.`);
  }
  requireSuccess(results, "retried");
};

const RETRY_HELP = `
Usage that was refused is sent again in a new event. If an attempt may have been
accepted, or drift of the event's minute was acknowledged, the processor's sums are
checked first. If they are unclear, find out what happened and pass --assume: a wrong
"absent" bills the usage twice, a wrong "delivered" never bills it. If two customers of
its organization may have the usage, --assume delivered needs the one that has it, named
with --customer.`;

const parseRetryId = parserOf<RetryId>(
  z.union([
    generatedId.transform((meterEventId) => ({ meterEventId })),
    guid.transform((registrationId) => ({ registrationId })),
  ]),
  "the id of a meter event or a registration",
);

export const addRetryCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
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
};

/** A longer list would hide what it says. */
const LISTED_STREAMS = 50;

export const addSendNowCommand = (
  parent: Command,
  { io, connections, clock }: CliContext,
): void => {
  withAudit(
    parent
      .command("send-now")
      .description("Send pending usage now, without waiting for the next attempt")
      .option("--org <id>", "id of the organization", parseId),
  ).action(async ({ org, json, ...operator }: ChangeOptions & { readonly org?: string }) => {
    const db = await connections.database();
    // An undecided copy of the database must not send usage.
    await connections.decidedDeploymentName();
    const { streams, delayedKeys } = await sendUsageNow(
      { db, clock, actor: actorOf(operator) },
      org ?? null,
    );
    const isHeld = await sayIfHeld(io, db);
    if (json) {
      printJson(
        io,
        streams.map((stream) => ({
          account_id: stream.accountId,
          mode: stream.mode,
          meter: stream.kind,
          oldest: timeOf(stream.second),
          attempts: stream.attempts,
          was_delayed: delayedKeys.has(ownerKey(stream)),
        })),
      );
      return;
    }
    if (streams.length === 0) {
      say(io, "No usage is pending.");
      return;
    }
    printRows(io, streams.slice(0, LISTED_STREAMS), {
      account: (stream) => stream.accountId,
      mode: (stream) => stream.mode,
      meter: (stream) => stream.kind,
      oldest: (stream) => timeOf(stream.second),
      attempts: (stream) => String(stream.attempts),
      "was delayed": (stream) => delayedKeys.has(ownerKey(stream)),
    });
    if (streams.length > LISTED_STREAMS) {
      say(io, `Only the oldest ${LISTED_STREAMS} streams are listed. See all with --json.`);
    }
    if (!isHeld) {
      say(
        io,
        `Workers send the usage of ${counted(streams.length, "stream")} within seconds; ${delayedKeys.size} of them waited for another attempt.`,
      );
    }
  });
};

type ReopenOptions = ReasonedOptions & {
  readonly dryRun?: true;
};

const REOPEN_HELP = `
Only an event that the processor accepted and lost can be reopened: the processor's sum
of its minute must lack exactly this event. If its organization has another customer now,
that one must not have the usage either. The usage is sealed in a new event.`;

export const addReopenCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("reopen")
    .description("Resend a delivered meter event that the processor has lost")
    .argument("<id>", "id of a delivered meter event", parseMeterEventId)
    .requiredOption("--reason <text>", "reason, recorded with the event", parseReason)
    .addOption(operatorOption())
    .option("--dry-run", "check only")
    .addHelpText("after", REOPEN_HELP)
    .action(async (meterEventId: bigint, { dryRun, json, ...operator }: ReopenOptions) => {
      const { io } = context;
      const deps = await openBillingChange(context, operator);
      const isDryRun = dryRun === true;
      const { quantity } = await reopenUsage(deps, meterEventId, {
        reason: operator.reason,
        isDryRun,
      });
      if (json) {
        printJson(io, {
          meter_event_id: Number(meterEventId),
          result: isDryRun ? "lost" : "waiting",
          quantity,
        });
      }
      await warnOfEndedPeriods(context, [meterEventId]);
      say(
        io,
        isDryRun
          ? `The processor has lost event ${meterEventId}.`
          : `Reopened event ${meterEventId}.`,
      );
      if (!(await sayIfHeld(io, deps.db))) {
        say(
          io,
          isDryRun
            ? `Without --dry-run, its ${counted(quantity, "unit is", "units are")} sent again.`
            : `The worker will send its ${counted(quantity, "unit")} again.`,
        );
      }
    });
};
