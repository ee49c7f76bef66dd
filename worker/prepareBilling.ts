import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { StartupError } from "../program/startupError.ts";
import type { Billing } from "../providers/billing/createBilling.ts";
import { ProcessorMismatchError } from "../providers/billing/processor.ts";

const TRY_AGAIN_MS = 30_000;

const tryPrepare = async (billing: Billing): Promise<unknown> => {
  try {
    await billing.prepare();
    return null;
  } catch (error) {
    if (error instanceof ProcessorMismatchError) {
      throw new StartupError(error.message, { cause: error });
    }
    return error;
  }
};

/**
 * Makes the processor ready. Where it cannot be reached the worker starts all the same and keeps trying, since usage
 * waits safely in the database meanwhile: nothing is sent to a processor that is not ready.
 * @returns `failed` rejects with a StartupError when it turns out later that something of ours is set up wrongly at the
 * processor
 * @throws StartupError when that is known at once
 */
export const prepareBilling = async (
  {
    billing,
    logger,
    tryAgainMs = TRY_AGAIN_MS,
  }: { readonly billing: Billing; readonly logger: Logger; readonly tryAgainMs?: number },
  signal: AbortSignal,
): Promise<{ readonly failed: Promise<never> }> => {
  const firstFailure = await tryPrepare(billing);
  const keepTrying = async (): Promise<void> => {
    for (let failure = firstFailure; failure !== null; failure = await tryPrepare(billing)) {
      logger.error({ err: failure }, "the billing processor cannot be made ready; trying again");
      await sleep(tryAgainMs, undefined, { signal });
    }
    if (firstFailure !== null) {
      logger.info("the billing processor is ready");
    }
  };
  const failed = new Promise<never>((_resolve, reject) => {
    keepTrying().catch((error: unknown) => {
      if (!signal.aborted) {
        logger.fatal({ err: error }, "the billing processor cannot be used");
        reject(error);
      }
    });
  });
  return { failed };
};
