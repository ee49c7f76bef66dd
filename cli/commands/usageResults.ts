import type { CommonQueryMethods } from "slonik";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { listMeterEventIdsOfEndedPeriods } from "../../modules/billing/meterEventReports.sql.ts";
import { HOLD_ADVICE, describeHold, findHold } from "../../modules/billing/deployment.rules.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError, exitCodeOf } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { createProgressBar } from "../output/createProgressBar.ts";
import { printJson, printRows } from "../output/print.ts";

/** What a command has done with one of the records that it was given. */
export type Result<Outcome extends string = string> = {
  readonly id: string;
  readonly result: Outcome | "failed";
  readonly reason: string | null;
  readonly exitCode: number;
};

export const failureOf = (id: string, error: unknown): Result<never> => ({
  id,
  result: "failed",
  reason: describeError(error),
  exitCode: exitCodeOf(error),
});

/**
 * Runs a command for each meter event separately: one that fails does not stop the others.
 * @param verb the past participle of what the command does
 * @param run returns the result of one event
 */
export const runForEach = async <Outcome extends string>(
  io: Io,
  ids: readonly bigint[],
  verb: string,
  run: (id: bigint) => Promise<Outcome>,
): Promise<readonly Result<Outcome>[]> => {
  const bar = createProgressBar(io);
  const results: Result<Outcome>[] = [];
  for (const id of ids) {
    bar.update(results.length / ids.length, `${results.length} of ${ids.length} ${verb}`);
    try {
      results.push({ id: String(id), result: await run(id), reason: null, exitCode: EXIT.ok });
    } catch (error) {
      results.push(failureOf(String(id), error));
    }
  }
  bar.clear();
  return results;
};

export const printResults = (io: Io, results: readonly Result[], json: boolean): void => {
  if (json) {
    printJson(
      io,
      results.map(({ id, result, reason }) => ({ id, result, reason })),
    );
  } else if (results.length > 0) {
    printRows(io, results, {
      id: ({ id }) => id,
      result: ({ result }) => result,
      reason: ({ reason }) => reason,
    });
  }
};

/**
 * @throws CommandError if something has failed. Its exit code is "not found" only if nothing was found, and "unreachable" only
 * if nothing has failed for another reason.
 */
export const requireSuccess = (
  results: readonly Pick<Result, "exitCode">[],
  verb: string,
): void => {
  const failed = results.filter(({ exitCode }) => exitCode !== EXIT.ok);
  if (failed.length > 0) {
    const isUnreachable = failed.every(({ exitCode }) => exitCode === EXIT.unreachable);
    const isNotFound = results.every(({ exitCode }) => exitCode === EXIT.notFound);
    throw new CommandError(
      isUnreachable ? EXIT.unreachable : isNotFound ? EXIT.notFound : EXIT.failed,
      `${failed.length} of ${results.length} could not be ${verb}.`,
    );
  }
};

/**
 * Says why nothing is sent while usage is held.
 * @returns whether it is held
 */
export const sayIfHeld = async (io: Io, db: CommonQueryMethods): Promise<boolean> => {
  const hold = findHold(await readDeployment(db));
  if (hold) {
    say(io, `Nothing is sent: ${describeHold(hold)}. ${HOLD_ADVICE}`);
  }
  return hold !== null;
};

/** Stripe accepts usage of a period that has ended, but a finalized invoice no longer changes. */
export const warnOfEndedPeriods = async (
  { io, connections, clock }: CliContext,
  meterEventIds: readonly bigint[],
): Promise<void> => {
  const db = await connections.database();
  const ends = { now: clock.now(), graceMs: 0 };
  for (const id of await listMeterEventIdsOfEndedPeriods(db, meterEventIds, ends)) {
    say(io, `The billing period of event ${id} has ended: its usage may not be on any invoice.`);
  }
};
