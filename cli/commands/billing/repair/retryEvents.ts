import { listFailedMeterEventIds } from "../../../../db/billing/meterEventReports.ts";
import { findRegistration } from "../../../../db/registrations/registrations.ts";
import type { AssumedOutcome } from "../../../../domain/billing/repair/decideRetry.ts";
import { counted } from "../../../../domain/counted.ts";
import { invalidRequest } from "../../../../domain/errors.ts";
import { recordNotFound } from "../../../../domain/recordIds.ts";
import { retryUsage } from "../../../../services/billing/repair/retryUsage.ts";
import type { RetryId } from "../../../arguments.ts";
import type { CliContext } from "../../../context.ts";
import { CommandError, EXIT } from "../../../exitCodes.ts";
import { say } from "../../../io.ts";
import { openBillingChange } from "../../../operator.ts";
import type { ChangeOptions } from "../../../operator.ts";
import { createProgressBar } from "../../../output/createProgressBar.ts";
import { readAccountFilter } from "../../../accountOptions.ts";
import { sayIfHeld } from "../sayIfHeld.ts";
import type { Result } from "./reportResults.ts";
import { failureOf, printResults, requireSuccess, runForEach } from "./reportResults.ts";
import { warnOfEndedPeriods } from "./warnOfEndedPeriods.ts";

export type RetryOptions = ChangeOptions & {
  readonly org?: string;
  readonly all?: true;
  readonly assume?: AssumedOutcome;
  readonly customer?: string;
};

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

export const retryEvents = async (
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
