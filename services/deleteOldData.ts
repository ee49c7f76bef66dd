import type { DatabasePool } from "slonik";
import type { Clock } from "../domain/clock.ts";
import { daysBefore } from "../domain/durations.ts";
import { recordExpiredKeys } from "./accounts/recordExpiredKeys.ts";
import { recountAllTestRecords } from "./accounts/recountAllTestRecords.ts";
import { deleteOldBillingRecords } from "./billing/deleteOldBillingRecords.ts";
import type { BillingRetention } from "./billing/deleteOldBillingRecords.ts";
import { deleteOldTestDonations } from "./charities/donations/deleteOldTestDonations.ts";
import { deleteOldEvents } from "./events/deleteOldEvents.ts";
import { clearExpiredResponses } from "./planting/evidence/clearCachedResponses.ts";
import { deleteOldTestRegistrations } from "./registrations/deleteOldTestRegistrations.ts";
import { deleteOldDailyCounts } from "./registrations/limits/deleteOldDailyCounts.ts";
import { eraseOldResponses } from "./stores/privacy/eraseOldResponses.ts";
import { deleteOldTestResponses } from "./stores/records/deleteOldTestResponses.ts";
import { deleteOldDeliveries } from "./webhooks/deleteOldDeliveries.ts";

export type RetentionDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly retention: BillingRetention;
  /** How long the data of test mode are kept; 0 for ever. */
  readonly testDataDays: number;
};

/** Of one step. A step that takes longer continues in the next attempt, after the others. */
const MAXIMUM_STEP_MS = 30 * 60 * 1000;

/** Returns what it did. It may be interrupted and repeated. */
type Step = (signal: AbortSignal) => Promise<unknown>;
type Steps = Readonly<Record<string, Step>>;

const testDataSteps = ({ db, clock, testDataDays }: RetentionDependencies): Steps => {
  if (testDataDays === 0) {
    return {};
  }
  const before = daysBefore(clock.now(), testDataDays);
  return {
    testRegistrations: (signal) => deleteOldTestRegistrations(db, before, signal),
    testDonations: (signal) => deleteOldTestDonations(db, before, signal),
    testResponses: (signal) => deleteOldTestResponses(db, before, signal),
  };
};

const stepsOf = (deps: RetentionDependencies): Steps => ({
  processorEvents: (signal) => deleteOldBillingRecords(deps, "processorEvents", signal),
  reconciliations: (signal) => deleteOldBillingRecords(deps, "reconciliations", signal),
  traceContexts: (signal) => deleteOldBillingRecords(deps, "traceContexts", signal),
  events: (signal) => deleteOldEvents(deps, signal),
  webhookDeliveries: (signal) => deleteOldDeliveries(deps, signal),
  erasedResponses: (signal) => eraseOldResponses(deps, signal),
  dailyCounts: () => deleteOldDailyCounts(deps.db, deps.clock.now()),
  cachedResponses: (signal) => clearExpiredResponses(deps, signal),
  ...testDataSteps(deps),
  // After the deletion of test data.
  recountedAccounts: (signal) => recountAllTestRecords(deps.db, signal),
  expiredKeys: (signal) => recordExpiredKeys(deps, signal),
});

/**
 * Deletes what is old enough in all capabilities, erases old personal data and records expired keys. A step that fails or
 * takes too long does not keep the later ones from running. It may be interrupted and repeated.
 * @returns what each step did, by its name
 * @throws AggregateError after all steps, if some have failed; its message has their names and reasons
 */
export const deleteOldData = async (
  deps: RetentionDependencies,
  signal: AbortSignal,
  maximumStepMs = MAXIMUM_STEP_MS,
): Promise<Readonly<Record<string, unknown>>> => {
  const results: Record<string, unknown> = {};
  const failures: { readonly name: string; readonly error: unknown }[] = [];
  for (const [name, step] of Object.entries(stepsOf(deps))) {
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
