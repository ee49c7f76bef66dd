import type { Config } from "../../config/config.ts";
import { openPool } from "../../db/pool.ts";
import { systemClock } from "../../domain/clock.ts";
import { readPlantingSettings } from "../../program/readPlantingSettings.ts";
import { createPlanting } from "../../providers/planting/createPlanting.ts";
import { DEMO_DURATIONS } from "./demoPace.ts";
import { fillDemo } from "./fillDemo.ts";
import type { FilledDemo } from "./fillDemo.ts";

/** Fills a migrated database that has no accounts. */
export const fillNewDemo = async (config: Config, databaseUrl: string): Promise<FilledDemo> => {
  const db = await openPool(databaseUrl, 4);
  try {
    const settings = readPlantingSettings(config);
    const planting = createPlanting({
      ...settings,
      simulated: { ...settings.simulated, durations: DEMO_DURATIONS },
    });
    return await fillDemo({ db, planting, now: systemClock.now() });
  } finally {
    await db.end();
  }
};
