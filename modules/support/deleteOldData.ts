import { deleteOldReconciliations } from "../billing/reconciliation/reconciliations.sql.ts";
import { daysBefore } from "../../runtime/durations.rules.ts";
import { deleteBefore } from "../../db/batching/deleteInBatches.ts";
import { deletedBefore } from "../events/events.rules.ts";
import { deleteEventsBefore } from "../events/events.sql.ts";
import type { Context } from "../../runtime/context.ts";

/** The results of a year stay. */
const RECONCILIATION_DAYS = 400;

/** Of one step. A step that takes longer continues in the next attempt, after the others. */
const MAXIMUM_STEP_MS = 30 * 60 * 1000;

/** Returns what it did. It may be interrupted and repeated. */
type Step = (signal: AbortSignal) => Promise<unknown>;
type Steps = Readonly<Record<string, Step>>;

const stepsOf = ({ db, clock }: Context): Steps => ({
  events: (signal) =>
    deleteBefore(deleteEventsBefore, { db, before: deletedBefore(clock.now()) }, signal),
  reconciliations: () => deleteOldReconciliations(db, daysBefore(clock.now(), RECONCILIATION_DAYS)),
});

/**
 * Deletes what is old enough in all capabilities. What clients recorded stays. A step that fails
 * or takes too long does not keep the later ones from running. It may be interrupted and repeated.
 * @returns what each step did, by its name
 * @throws AggregateError after all steps, if some have failed; its message has their names and reasons
 */
export const deleteOldData = async (
  context: Context,
  signal: AbortSignal,
  maximumStepMs = MAXIMUM_STEP_MS,
): Promise<Readonly<Record<string, unknown>>> => {
  const results: Record<string, unknown> = {};
  const failures: { readonly name: string; readonly error: unknown }[] = [];
  for (const [name, step] of Object.entries(stepsOf(context))) {
    try {
      results[name] = await step(AbortSignal.any([signal, AbortSignal.timeout(maximumStepMs)]));
    } catch (error) {
      signal.throwIfAborted();
      failures.push({ name, error });
    }
  }
  if (failures.length > 0) {
    throw new AggregateError(
      failures.map(({ error }) => error),
      failures.map(({ name, error }) => `${name}: ${String(error)}`).join("; "),
    );
  }
  return results;
};
