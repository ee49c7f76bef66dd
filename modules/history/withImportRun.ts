import {
  deleteImportRun,
  deleteImportRunsBefore,
  insertImportRun,
  isRunLost,
} from "./importRuns.sql.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { OutageError } from "../../runtime/errors.rules.ts";
import { newId } from "../../runtime/newId.ts";
import type { Context } from "../../runtime/context.ts";

/** Longer than any import takes. */
const MAXIMUM_AGE_MS = 7 * DAY_MS;

/**
 * Runs a function that remembers in the database what it reads, and forgets it afterwards. Also forgets what killed runs
 * have left.
 * @throws OutageError if the database has lost it in between
 */
export const withImportRun = async <Result>(
  { db, clock }: Context,
  work: (runId: string) => Promise<Result>,
): Promise<Result> => {
  const startedAt = clock.now();
  await deleteImportRunsBefore(db, new Date(startedAt.getTime() - MAXIMUM_AGE_MS));
  const id = newId();
  await insertImportRun(db, { id, startedAt });
  try {
    const result = await work(id);
    await deleteImportRun(db, id);
    return result;
  } catch (error) {
    // Otherwise its rows would wait for a run a week later. The error of the run is the one to report.
    await deleteImportRun(db, id).catch(() => undefined);
    throw isRunLost(error)
      ? new OutageError("the database was restarted in between; run the command again", {
          cause: error,
        })
      : error;
  }
};
