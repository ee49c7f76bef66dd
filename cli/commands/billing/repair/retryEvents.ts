import { InvalidArgumentError } from "commander";
import {
  listFailedMeterEventIds,
  listMeterEventIdsOfEndedPeriods,
} from "../../../../db/billing/meterEventReports.ts";
import { findRegistration } from "../../../../db/registrations/registrations.ts";
import type { AssumedOutcome } from "../../../../domain/billing/decideRetry.ts";
import { counted } from "../../../../domain/counted.ts";
import { DomainError } from "../../../../domain/errors.ts";
import { recordNotFound } from "../../../../domain/recordIds.ts";
import { getOrganization } from "../../../../services/accounts/getOrganization.ts";
import { retryUsage } from "../../../../services/billing/repair/retryUsage.ts";
import { parseId } from "../../../arguments.ts";
import type { Context } from "../../../context.ts";
import { CommandError, describeError, EXIT, exitCodeOf } from "../../../exitCodes.ts";
import { say } from "../../../io.ts";
import { actorOf } from "../../../operator.ts";
import type { OperatorOptions } from "../../../operator.ts";
import { createProgressBar } from "../../../output/createProgressBar.ts";
import { printJson, printTable } from "../../../output/print.ts";

/** A meter event, or a registration whose failed meter events are meant. */
export type RetryId = { readonly meterEventId: bigint } | { readonly registrationId: string };

export type RetryOptions = OperatorOptions & {
  readonly org?: string;
  readonly all?: true;
  readonly assume?: AssumedOutcome;
  readonly json?: true;
};

type Result = {
  readonly id: string;
  readonly result: "waiting" | "delivered" | "failed";
  readonly reason: string | null;
  readonly exitCode: number;
};

const METER_EVENT_ID = /^\d{1,18}$/u;

export const parseMeterEventId = (given: string): bigint => {
  if (!METER_EVENT_ID.test(given)) {
    throw new InvalidArgumentError("Must be the id of a meter event.");
  }
  return BigInt(given);
};

export const parseRetryId = (given: string): RetryId => {
  if (METER_EVENT_ID.test(given)) {
    return { meterEventId: parseMeterEventId(given) };
  }
  try {
    return { registrationId: parseId(given) };
  } catch {
    throw new InvalidArgumentError("Must be the id of a meter event or a registration.");
  }
};

const requireOneSelection = (ids: readonly RetryId[], { org, all, assume }: RetryOptions): void => {
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
};

/** @throws DomainError if a registration is unknown or has no failed event */
const findEvents = async ({ connections }: Context, id: RetryId): Promise<readonly bigint[]> => {
  if ("meterEventId" in id) {
    return [id.meterEventId];
  }
  const db = await connections.database();
  const events = await listFailedMeterEventIds(db, id);
  if (events.length > 0) {
    return events;
  }
  throw (await findRegistration(db, id.registrationId))
    ? new DomainError("request_invalid", "none of its usage has failed; there is nothing to retry")
    : recordNotFound("registration", id.registrationId);
};

const failure = (id: string, error: unknown): Result => ({
  id,
  result: "failed",
  reason: describeError(error),
  exitCode: exitCodeOf(error),
});

const collectEvents = async (
  context: Context,
  ids: readonly RetryId[],
  { org }: RetryOptions,
): Promise<{ readonly events: ReadonlySet<bigint>; readonly failures: readonly Result[] }> => {
  const db = await context.connections.database();
  if (ids.length === 0) {
    if (org !== undefined) {
      await getOrganization(db, org);
    }
    const failed = await listFailedMeterEventIds(db, org === undefined ? null : { accountId: org });
    return { events: new Set(failed), failures: [] };
  }
  const events = new Set<bigint>();
  const failures: Result[] = [];
  const bar = createProgressBar(context.io);
  for (const [index, id] of ids.entries()) {
    bar.update(index / ids.length, `${index} of ${ids.length} looked up`);
    try {
      for (const event of await findEvents(context, id)) {
        events.add(event);
      }
    } catch (error) {
      failures.push(failure("registrationId" in id ? id.registrationId : "", error));
    }
  }
  bar.clear();
  return { events, failures };
};

/** Stripe accepts usage of a period that has ended, but a finalized invoice no longer changes. */
const warnOfEndedPeriods = async (
  { io, connections, clock }: Context,
  events: ReadonlySet<bigint>,
): Promise<void> => {
  const db = await connections.database();
  for (const id of await listMeterEventIdsOfEndedPeriods(db, [...events], {
    now: clock.now(),
    graceMs: 0,
  })) {
    say(io, `The billing period of event ${id} has ended: its usage may not be on any invoice.`);
  }
};

/** Retries each event separately: one that cannot be retried does not stop the others. */
const retryAll = async (
  { io, connections, clock }: Context,
  events: ReadonlySet<bigint>,
  { assume, as, reason: why }: RetryOptions,
): Promise<readonly Result[]> => {
  const deps = {
    db: await connections.database(),
    clock,
    billing: await connections.billing(),
    actor: actorOf({ as, reason: why }),
  };
  const bar = createProgressBar(io);
  const results: Result[] = [];
  for (const event of events) {
    bar.update(results.length / events.size, `${results.length} of ${events.size} retried`);
    try {
      const result = await retryUsage(deps, event, assume ?? null);
      results.push({ id: String(event), result, reason: null, exitCode: EXIT.ok });
    } catch (error) {
      results.push(failure(String(event), error));
    }
  }
  bar.clear();
  return results;
};

export const retryEvents = async (
  context: Context,
  ids: readonly RetryId[],
  options: RetryOptions,
): Promise<void> => {
  requireOneSelection(ids, options);
  const { io } = context;
  const { events, failures } = await collectEvents(context, ids, options);
  await warnOfEndedPeriods(context, events);
  const results = [...failures, ...(await retryAll(context, events, options))];
  if (options.json) {
    printJson(
      io,
      results.map(({ id, result, reason }) => ({ id, result, reason })),
    );
  } else if (results.length > 0) {
    printTable(
      io,
      ["id", "result", "reason"],
      results.map(({ id, result, reason }) => [id, result, reason]),
    );
  }
  const count = (wanted: Result["result"]): number =>
    results.filter(({ result }) => result === wanted).length;
  if (results.length === 0) {
    say(io, "No usage has failed; there is nothing to retry.");
  }
  if (count("waiting") > 0) {
    say(io, `The worker will send the usage of ${counted(count("waiting"), "meter event")} again.`);
  }
  const failed = results.filter(({ result }) => result === "failed");
  if (failed.length > 0) {
    throw new CommandError(
      results.every(({ exitCode }) => exitCode === EXIT.notFound) ? EXIT.notFound : EXIT.failed,
      `${failed.length} of ${results.length} could not be retried.`,
    );
  }
};
