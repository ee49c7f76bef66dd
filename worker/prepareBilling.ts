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
 * waits safely in the database meanwhile.
 * @throws StartupError when something of ours is set up wrongly at the processor
 */
export const prepareBilling = async (
  { billing, logger }: { readonly billing: Billing; readonly logger: Logger },
  signal: AbortSignal,
): Promise<void> => {
  const firstFailure = await tryPrepare(billing);
  if (firstFailure === null) {
    return;
  }
  logger.error({ err: firstFailure }, "the billing processor cannot be made ready; trying again");
  const keepTrying = async (): Promise<void> => {
    for (;;) {
      await sleep(TRY_AGAIN_MS, undefined, { signal });
      const failure = await tryPrepare(billing);
      if (failure === null) {
        logger.info("the billing processor is ready");
        return;
      }
      logger.error({ err: failure }, "the billing processor cannot be made ready; trying again");
    }
  };
  keepTrying().catch((error: unknown) => {
    if (!signal.aborted) {
      logger.fatal({ err: error }, "the billing processor cannot be used");
    }
  });
};
