import type { Config } from "../runtime/config/config.ts";
import { createBillingActivities } from "../activities/createBillingActivities.ts";
import type { BillingObservers } from "../activities/createBillingActivities.ts";
import { createRetentionActivities } from "../activities/createRetentionActivities.ts";
import { createPlantingActivities } from "../activities/createPlantingActivities.ts";
import {
  createPlanting,
  plantingOrderIntervalMs,
  readPlantingSettings,
} from "../modules/planting/createPlanting.ts";
import type { WorkerContext } from "./context.ts";

/** Creates the activities of the background queue that are not run by shards. */
export const createBackgroundActivities = (
  config: Config,
  context: WorkerContext & BillingObservers,
) => ({
  ...createBillingActivities(context),
  ...createRetentionActivities({
    ...context,
    db: context.bulkDb,
    retention: {
      processorEventDays: config.PROCESSOR_EVENT_RETENTION_DAYS,
      reconciliationDays: config.RECONCILIATION_RETENTION_DAYS,
    },
    testDataDays: config.TEST_DATA_RETENTION_DAYS,
  }),
  ...createPlantingActivities({
    ...context,
    planting: createPlanting(readPlantingSettings(config), (unusable) => {
      context.logger.warn(
        unusable,
        "TreeMapper has records that no order can use until they are corrected there",
      );
    }),
    plantingPollMs: config.PLANTING_POLL_INTERVAL_SECONDS * 1000,
    plantingOrderIntervalMs: plantingOrderIntervalMs(config),
  }),
});
