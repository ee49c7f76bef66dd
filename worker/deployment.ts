import type { Logger } from "pino";
import {
  deploymentNameOf,
  describeHold,
  HOLD_ADVICE,
  UNDECIDED_COPY,
} from "../modules/billing/deployment.rules.ts";
import { readDeployment } from "../modules/billing/deployment.sql.ts";
import { findDeploymentName, guardUsage, workerIdentity } from "../modules/billing/holdUsage.ts";
import type { Context } from "../runtime/context.ts";
import { StartupError } from "../runtime/errors.rules.ts";
import { pause } from "../runtime/waiting.ts";

type WatchContext = Context & { readonly logger: Logger };

const HOLD_INTERVAL_MS = 60_000;

/**
 * Records the database server of a new deployment, holds usage if the server has changed, and logs a hold once a minute.
 * Resolves after the first check.
 * @returns `ended`, which resolves after the signal is aborted
 */
export const watchHold = async (
  { db, clock, logger }: WatchContext,
  signal: AbortSignal,
): Promise<{ readonly ended: Promise<void> }> => {
  const check = async (): Promise<void> => {
    const hold = await guardUsage({ db, clock });
    if (hold) {
      logger.error({ hold }, `${describeHold(hold)}. ${HOLD_ADVICE}`);
    }
  };
  const watch = async (): Promise<void> => {
    while (await pause(HOLD_INTERVAL_MS, signal)) {
      await check().catch((error: unknown) => {
        logger.warn({ err: error }, "the hold of usage could not be checked; retrying");
      });
    }
  };
  await check();
  return { ended: watch() };
};

const NAME_INTERVAL_MS = 5000;

/**
 * Waits until the deployment's name in Temporal is decided. A worker that took work before could take that of the database
 * from which this one was copied.
 * @throws StartupError if the database was separated meanwhile: what the worker has checked so far, such as its Stripe
 *   account, was checked for the original deployment
 * @returns the name and how this worker is named in Temporal, or null after the signal is aborted
 */
export const awaitDeploymentName = async (
  {
    db,
    clock,
    logger,
    intervalMs = NAME_INTERVAL_MS,
  }: WatchContext & { readonly intervalMs?: number },
  signal: AbortSignal,
): Promise<{ readonly name: string; readonly identity: string } | null> => {
  let hasWaited = false;
  let originalName: string | null = null;
  while (!signal.aborted) {
    try {
      // First, so that no separation goes unnoticed.
      originalName ??= deploymentNameOf(await readDeployment(db));
      const name = await findDeploymentName({ db, clock });
      if (name !== null) {
        const identity = workerIdentity(await readDeployment(db));
        if (originalName !== name) {
          throw new StartupError(
            `The database was separated from the deployment ${originalName} while this worker waited. Start the worker again.`,
          );
        }
        if (hasWaited) {
          logger.info({ deployment: name }, "this worker now polls Temporal");
        }
        return { name, identity };
      }
      if (!hasWaited) {
        // The hold of usage, which has the same cause, is logged once a minute.
        hasWaited = true;
        logger.error(`${UNDECIDED_COPY} Until then, this worker does not poll Temporal.`);
      }
    } catch (error) {
      if (error instanceof StartupError) {
        throw error;
      }
      logger.warn({ err: error }, "the deployment's name could not be read; retrying");
    }
    await pause(intervalMs, signal);
  }
  return null;
};
