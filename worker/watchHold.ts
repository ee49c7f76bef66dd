import type { Logger } from "pino";
import { describeHold, HOLD_ADVICE } from "../modules/billing/deployment.rules.ts";
import { guardUsage } from "../modules/billing/holdUsage.ts";
import { pause } from "../runtime/waiting.ts";
import type { Context } from "../runtime/context.ts";

const INTERVAL_MS = 60_000;

/**
 * Records the database server of a new deployment, holds usage if the server has changed, and logs a hold once a minute.
 * The first check has ended when this resolves.
 * @returns `ended`, which resolves after the signal is aborted
 */
export const watchHold = async (
  { db, clock, logger }: Context & { readonly logger: Logger },
  signal: AbortSignal,
): Promise<{ readonly ended: Promise<void> }> => {
  const check = async (): Promise<void> => {
    const hold = await guardUsage({ db, clock });
    if (hold) {
      logger.error({ hold }, `${describeHold(hold)}. ${HOLD_ADVICE}`);
    }
  };
  await check();
  const watch = async (): Promise<void> => {
    while (!signal.aborted) {
      await pause(INTERVAL_MS, signal);
      if (!signal.aborted) {
        await check().catch((error: unknown) => {
          logger.warn({ err: error }, "the hold of usage could not be checked; retrying");
        });
      }
    }
  };
  return { ended: watch() };
};
