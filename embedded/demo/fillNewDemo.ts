import type { Config } from "../../runtime/config/config.ts";
import { openPool } from "../../db/pools/pool.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createDemoPlanting } from "./createDemoPlanting.ts";
import { fillDemo } from "./fillDemo.ts";
import type { FilledDemo } from "./fillDemo.ts";

const CONNECTIONS = 4;

/** Fills a migrated database that has no accounts. */
export const fillNewDemo = async (
  { PLANTING_PARTNER_NAME, SIMULATED_PLANTING_TIMELINE }: Config,
  databaseUrl: string,
): Promise<FilledDemo> => {
  const db = await openPool(databaseUrl, CONNECTIONS);
  try {
    const planting = createDemoPlanting({
      partnerName: PLANTING_PARTNER_NAME ?? null,
      timeline: SIMULATED_PLANTING_TIMELINE,
    });
    return await fillDemo({ db, planting, now: systemClock.now() });
  } finally {
    await db.end();
  }
};
