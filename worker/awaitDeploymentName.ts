import type { Logger } from "pino";
import { deploymentNameOf, UNDECIDED_COPY } from "../modules/billing/deployment.rules.ts";
import { readDeployment, readServerMark } from "../modules/billing/deployment.sql.ts";
import { StartupError } from "../runtime/errors.rules.ts";
import { findDeploymentName, workerIdentity } from "../modules/billing/holdUsage.ts";
import { pause } from "../runtime/waiting.ts";
import type { Context } from "../runtime/context.ts";

const INTERVAL_MS = 5000;

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
    intervalMs = INTERVAL_MS,
  }: Context & { readonly logger: Logger; readonly intervalMs?: number },
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
        const identity = workerIdentity(await readServerMark(db));
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
